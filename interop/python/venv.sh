# Sourced by the Python suites: makes .venv in the current folder from requirements.txt.

prepare_venv() {
  if ! command -v python3 >/dev/null || ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    echo "left out: Python 3.10 or newer is not installed"
    exit 77
  fi
  if [ .venv/installed -nt requirements.txt ]; then
    return
  fi
  if ! python3 -m venv --clear .venv; then
    echo "left out: the venv module of Python is not installed"
    exit 77
  fi
  .venv/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
  touch .venv/installed
}
