#!/bin/sh
# Makes one throwaway environment a peer under .bench/ (git-ignored). A second run makes only what is missing.
#   sh benchmarks/peers.sh [NAME...]         names: openai ragas deepeval autoevals ragelo; of ranking: ir_measures ranx; of corrected means: cje-eval truescore evalstats glide-py
set -u
cd "$(dirname "$0")/.." || exit 1
PYTHON=${PYTHON:-python3}

pins() {
  case $1 in
    # The client that every peer uses, and that a plain loop would use; httpx2 is germane's own client.
    openai) echo "openai==3.52.0 httpx2==2.16.2 pydantic==2.14.3" ;;
    # As published its imports fail: it needs an older langchain-community and a newer instructor than it gets.
    ragas) echo "ragas==0.4.3 langchain-community<0.4 instructor>=1.10" ;;
    deepeval) echo "deepeval==4.3.1" ;;
    # Its entity recall compares embeddings with numpy, which only the extra brings.
    autoevals) echo "autoevals[scipy]==0.4.1 openai==3.52.0" ;;
    ragelo) echo "ragelo==0.7.0" ;;
    # Ranked measures on TREC files, for benchmarks/rank.py.
    ir_measures) echo "ir_measures==0.4.3" ;;
    ranx) echo "ranx==0.3.21" ;;
    # Corrected means; glide-py needs Python 3.12: PYTHON=python3.12 sh benchmarks/peers.sh glide-py
    cje-eval) echo "cje-eval==0.9.3" ;;
    truescore) echo "truescore==0.7.4" ;;
    evalstats) echo "evalstats==0.3.3" ;;
    glide-py) echo "glide-py==0.11.0" ;;
    *) return 1 ;;
  esac
}

mkdir -p .bench && echo "*" > .bench/.gitignore
failed=0
for name in ${*:-openai ragas deepeval autoevals ragelo}; do
  home=.bench/$name
  wanted=$(pins "$name") || { echo "$name: no such peer"; failed=1; continue; }
  [ "$(cat "$home/.pins" 2>/dev/null)" = "$wanted" ] && { echo "$name: there"; continue; }
  echo "$name: $wanted"
  # shellcheck disable=SC2086
  if "$PYTHON" -m venv --clear "$home" && "$home/bin/pip" install --quiet --disable-pip-version-check $wanted; then
    "$home/bin/pip" list --disable-pip-version-check --format=freeze > "$home/versions.txt"
    printf '%s' "$wanted" > "$home/.pins"
  else
    echo "$name: could not be installed"
    failed=1
  fi
done
exit $failed
