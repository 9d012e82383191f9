# For scripts that build: `lock_build FOLDER` lets only one of them at a time configure and build there, and the others wait.
lock_build() {
  mkdir -p "$1"
  exec {build_lock}<"$1"
  if ! flock -n "$build_lock"; then
    echo "another build of this folder is going on; waiting" >&2
    flock "$build_lock"
  fi
}
unlock_build() { exec {build_lock}<&-; }
