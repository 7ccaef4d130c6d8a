#!/bin/sh
# Make .venv from requirements.lock and install germane into it, editable. Called by the Makefile; needs sh only.
#
#   scripts/setup.sh run|all [PYTHON]
#
#   run     what a user of germane installs; all: also the tools for tests, lint and builds
#   PYTHON  the interpreter to use; without it the first one >= 3.11 is searched
#
# Rules: nothing is ever installed outside .venv; one clear sentence, not a traceback, when a tool is missing;
# the stamps are written last, so that an interrupted set-up is taken up again by the next `make`.
set -eu

cd "$(dirname "$0")/.."
HERE=$(pwd -P)
VENV=.venv
SCOPE=${1:-all}
RUN=$VENV/.germane-run      # each holds the folder it was made in: an editable install must not outlive a move or a copy
STAMP=$VENV/.germane-stamp  # of `all`, which includes `run`
BEGUN=$VENV/.germane-begun  # there while a set-up is under way
LOG=$VENV/setup.log

# What a shell may have set and what must not reach .venv. Index settings (PIP_INDEX_URL, PIP_CERT, ...) stay.
unset VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHOME PYTHONSTARTUP PIP_USER PIP_TARGET PIP_PREFIX PIP_ROOT \
  PIP_REQUIRE_VIRTUALENV PIP_BREAK_SYSTEM_PACKAGES PIP_NO_BUILD_ISOLATION PIP_NO_DEPS PIP_CONSTRAINT \
  PIP_REQUIREMENT PIP_REQUIRE_HASHES PIP_DRY_RUN UV_PROJECT_ENVIRONMENT UV_SYSTEM_PYTHON UV_PYTHON 2>/dev/null || :
export PYTHONNOUSERSITE=1 PIP_USER=0 PIP_REQUIRE_VIRTUALENV=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

die() {
  echo "make setup: $*" >&2
  exit 1
}

# A candidate is believed only when it has run: the name may be a shim for a version that is not installed.
new_enough() {
  "$1" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# `import venv` alone is not enough: Debian ships it without ensurepip, and then a venv has no pip.
can_make_venv() {
  "$1" -I -c 'import venv, ensurepip' >/dev/null 2>&1
}

# The first Python that can do all of it, else the first that is new enough: uv, or a good message, does the rest.
find_python() {
  names="python3.14 python3.13 python3.12 python3.11 python3 python"
  for name in $names; do
    if new_enough "$name" && can_make_venv "$name"; then
      echo "$name"
      return
    fi
  done
  for name in $names; do
    if new_enough "$name"; then
      echo "$name"
      return
    fi
  done
  return 1
}

# uv installs in seconds what takes pip minutes. One that is installed is used, else it is put into .venv.
UV=uv
have_uv() {
  "$UV" --version >/dev/null 2>&1
}

case $SCOPE in
  run) what="what germane needs to run" ;;
  all) what="germane and the tools for its tests; 10 to 30 seconds with uv, some minutes where only pip works" ;;
  *) die "write scripts/setup.sh run, or scripts/setup.sh all, not '$SCOPE'." ;;
esac
if [ -n "${2:-}" ]; then
  python=$2
  new_enough "$python" || die "PYTHON=$python does not run, or is older than Python 3.11; name another one."
else
  python=$(find_python) || die "no Python 3.11 or newer found; install one (Debian/Ubuntu: apt install python3 python3-venv," \
    "macOS: brew install python) or name it with 'make PYTHON=/path/to/python3.11'."
fi
can_make_venv "$python" || have_uv || die "$python has no venv module (or no ensurepip); install it" \
  "(Debian/Ubuntu: apt install $("$python" -I -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'))" \
  "or install uv, then run make again."

# An old .venv is kept if it runs, is of the same Python, was made here and was not left half made; else made anew.
version='import sys; print(sys.version_info[:2])'
keep() {
  [ -x $VENV/bin/python ] && [ ! -e $BEGUN ] &&
    [ "$($VENV/bin/python -I -c "$version" 2>&1)" = "$("$python" -I -c "$version")" ] &&
    for stamp in $RUN $STAMP; do
      [ ! -e $stamp ] || [ "$(cat $stamp)" = "$HERE" ] || return 1
    done
}
if keep; then
  rm -f $RUN $STAMP
  touch $BEGUN
else
  rm -rf $VENV
  mkdir $VENV
  touch $BEGUN
  if can_make_venv "$python"; then
    "$python" -I -m venv $VENV || die "$python could not make a virtual environment in $VENV (see above)."
  else
    "$UV" venv --quiet --no-config --no-project --allow-existing --seed \
      --python "$("$python" -I -c 'import sys; print(sys.executable)')" $VENV ||
      die "uv could not make a virtual environment in $VENV (see above)."
  fi
fi

echo "setting up $VENV with $($VENV/bin/python -I --version): $what ..." >&2
pip() {
  $VENV/bin/python -I -m pip "$@"
}

# How far an installation has come, on a terminal: one line that counts the packages.
progress() {
  if [ -t 2 ]; then
    awk '/^Collecting /{n++; printf "\r  %d packages: %-40.40s", n, $2 > "/dev/stderr"}
         /^Installing /{printf "\r  installing %d packages %-40s\n", n, "" > "/dev/stderr"} {print}' >"$LOG"
  else
    cat >"$LOG"
  fi
}
install() {
  { pip install "$@" 2>&1 || echo failed >$VENV/.failed; } | progress
  if [ -e $VENV/.failed ]; then
    rm -f $VENV/.failed
    cat "$LOG" >&2
    return 1
  fi
}

# uv does not read pip's settings: the index, certificates and files that pip would use are handed on to it. What is set
# for uv itself stays. pip takes the best version of all indexes, uv that of the first one unless told otherwise.
pip_settings() {
  $VENV/bin/python -I - <<'PYTHON'
import ast, os, shlex, subprocess, sys

listed = subprocess.run([sys.executable, "-I", "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
settings = {}
for line in listed.splitlines():
    name, _, value = line.partition("=")
    settings[tuple(name.rsplit(".", 1))] = ast.literal_eval(value)


def values(key):
    sections = (":env:", "install", "global")  # the first one counts
    return next((settings[section, key].split() for section in sections if (section, key) in settings), [])


names = {"index-url": ("UV_DEFAULT_INDEX", " "), "extra-index-url": ("UV_INDEX", " "), "find-links": ("UV_FIND_LINKS", ","),
         "trusted-host": ("UV_INSECURE_HOST", " "), "cert": ("SSL_CERT_FILE", " "), "no-index": ("UV_NO_INDEX", " "),
         "proxy": ("ALL_PROXY", " ")}
for key, (name, between) in names.items():
    if values(key) and name not in os.environ:
        print(f"export {name}={shlex.quote(between.join(values(key)))}")
if values("extra-index-url"):
    print("export UV_INDEX_STRATEGY=${UV_INDEX_STRATEGY:-unsafe-best-match}")
PYTHON
}

find_uv() {
  have_uv && return
  UV=$VENV/bin/uv
  have_uv || { pip install --quiet uv >"$LOG" 2>&1 && have_uv; }
}

# uv_install ARG...: `uv pip ARG...`, with what uv says kept until it is known whether it could do it.
uv_install() {
  (eval "$(pip_settings)" && "$UV" pip "$@" --quiet --no-config --python $VENV/bin/python) >"$LOG" 2>&1
}

pip --version >/dev/null 2>&1 || $VENV/bin/python -I -m ensurepip >/dev/null
find_uv || UV=
if [ "$SCOPE" = all ]; then
  # The lock is complete: nothing need be resolved, and pip would stumble over a name with extras of which the index has a newer
  # version.
  { [ -n "$UV" ] && uv_install sync --require-hashes requirements.lock; } || install --no-deps --require-hashes -r requirements.lock ||
    die "the packages in requirements.lock could not be installed (see above)."
  pip --version >/dev/null 2>&1 || $VENV/bin/python -I -m ensurepip >/dev/null
  install --no-deps --no-build-isolation --no-index --editable . || die "germane itself could not be installed (see above)."
else
  # The locked versions, but only of what the package itself asks for, as `pip install` would take it.
  sed -e '/--hash=/d' -e 's/ *\\$//' requirements.lock >$VENV/constraints.txt
  { [ -n "$UV" ] && uv_install install --constraint $VENV/constraints.txt --editable .; } ||
    install --constraint $VENV/constraints.txt --editable . || die "germane could not be installed (see above)."
  rm -f $VENV/constraints.txt
fi
# Where Python may not write bytecode, every process would compile the sources anew.
$VENV/bin/python -I -m compileall -q src

rm -f "$LOG" $BEGUN
printf '%s' "$HERE" >$RUN
[ "$SCOPE" = run ] || printf '%s' "$HERE" >$STAMP
