# Sourced by the suites that use programs of Debian's packages.

apt_lock=${TMPDIR:-/tmp}/leveret-interop-apt.lock

# Installs packages of Debian's, where that can be; their programs tell whether it could.
install_packages() { # package...
  DEBIAN_FRONTEND=noninteractive flock "$apt_lock" bash -c \
    'apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"' install "$@" >&2 || true
}

# Unpacks packages of Debian's into the folder `package` of the current one; status 77 where that cannot be.
unpack() { # package...
  if ! flock "$apt_lock" bash -c \
    'apt-get download "$@" || { apt-get update && apt-get download "$@"; }' download "$@" >log 2>&1; then
    tail -3 log
    exit 77
  fi
  for package in ./*.deb; do dpkg-deb -x "$package" package; done
}
