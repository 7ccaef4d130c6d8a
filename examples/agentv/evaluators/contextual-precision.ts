/**
 * Code judge: contextual precision in TypeScript, to copy and change; needs nothing but node 22.18 or later.
 *
 * Reads the case (one JSON document) on stdin: `candidate_answer` holds {"retrieved_context": [...]}, ranked. A passage
 * counts as relevant when it holds `config.share` (default 0.5) of the words of the expected outcome. Prints {score, hits,
 * misses, reasoning}: the score is the mean of precision@k over the ranks k of relevant passages, 0 where none is relevant.
 */
import { readFileSync } from "node:fs";

interface Case { candidate_answer?: string; expected_outcome?: string; config?: { share?: number } }
interface Check { position: number; text: string; relevant: boolean }
interface Result { score: number; hits: string[]; misses: string[]; reasoning: string }

const SHARE = 0.5;

/** The ranked passages in an answer; none where it holds none. */
function passages(answer: string): string[] {
  try {
    const listed = JSON.parse(answer)?.retrieved_context;
    return Array.isArray(listed) ? listed.map((one) => (typeof one === "string" ? one : String(one.text))) : [];
  } catch {
    return [];
  }
}

function words(text: string): Set<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}_]{3,}/gu) ?? []);
}

/** Whether a passage holds enough of the expected outcome's words. */
function isRelevant(passage: string, expected: string, share: number): boolean {
  const wanted = words(expected);
  const found = words(passage);
  return wanted.size > 0 && [...wanted].filter((word) => found.has(word)).length >= share * wanted.size;
}

/** Mean of precision@k over the ranks k that hold a relevant passage. */
function precision(checks: Check[]): number {
  const ranks = checks.filter((check) => check.relevant).map((check) => check.position);
  const sum = ranks.reduce((total, rank, before) => total + (before + 1) / rank, 0);
  return ranks.length ? sum / ranks.length : 0;
}

/** The result of one case. */
function grade(given: Case): Result {
  const found = passages(given.candidate_answer ?? "");
  const share = given.config?.share ?? SHARE;
  const checks = found.map((text, at) => ({ position: at + 1, text, relevant: isRelevant(text, given.expected_outcome ?? "", share) }));
  if (!checks.length) {
    return { score: 0, hits: [], misses: ["No retrieved context found in candidate answer"], reasoning: "nothing came back" };
  }
  const score = precision(checks);
  const hits = checks.filter((check) => check.relevant).map((check) => `Position ${check.position}: ${check.text.slice(0, 60)}`);
  const misses = checks.filter((check) => !check.relevant).map((check) => `Position ${check.position}: Not relevant`);
  return { score, hits, misses, reasoning: `${hits.length}/${checks.length} passages relevant, precision score: ${score.toFixed(2)}` };
}

console.log(JSON.stringify(grade(JSON.parse(readFileSync(0, "utf8")))));
