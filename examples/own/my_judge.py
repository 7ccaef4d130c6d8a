from germane import evaluate
from germane.judges import LocalJudge, Reply
from germane.questions import AnyQuestion, Relevance


class Keywords(LocalJudge):
    """A passage is relevant (3) where it holds the query's last word."""

    name = "keywords"

    def reply(self, question: AnyQuestion) -> Reply:
        if not isinstance(question, Relevance):
            return Reply(error="I only know what is relevant")
        word = question.query.rstrip("?").split()[-1].lower()
        return Reply(payload={"reasoning": word, "grade": 3 if word in question.passage.lower() else 0})


sample = {"query": "When is high tide?", "contexts": ["The tide is high at noon.", "Bread needs yeast."]}
print(evaluate([sample], "context_precision@5", judge=Keywords()))
