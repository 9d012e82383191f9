# What launch/cluster asks a machine: lines NAME=VALUE. It changes nothing. Its first line shows that nothing else is said before it.
echo yamata-probe=1
lib="$HOME/.local/lib/yamata/$(uname -m)"
say() { printf '%s=%s\n' "$1" "$2"; }
say hostname "$(hostname 2>/dev/null || cat /proc/sys/kernel/hostname)"
say machine "$(uname -m)"
say release "$(. /etc/os-release 2>/dev/null && echo "$ID $VERSION_ID")"
say user "$(id -un)"
say home "$HOME"
say sudo "$(if [ "$(id -u)" = 0 ]; then echo root; elif sudo -n true 2>/dev/null; then echo yes; fi)"
say perl "$(command -v perl)"
say apt "$(command -v apt-get)"
say orted "$(command -v orted)"
say openmpi "$(mpirun --version 2>&1 | sed -n 's/.*(Open MPI) *\([0-9.]*\).*/\1/p' | head -n 1)"
say packages "$(dpkg-query -W -f '${Status} ${Package} ${Version}\n' openmpi-bin libopenmpi3 libpmix2 2>/dev/null |
  sed -n 's/^install ok installed //p' | tr ' \n' '= ')"
say program "$(cat "$lib/yamata.from" 2>/dev/null)"
say runs "$("$lib/yamata" --version 2>&1 | head -n 1)"
say cores "$(nproc)"
say memory_kib "$(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo)"
say available_kib "$(sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo)"
free_of() { df -Pk "$1" 2>/dev/null | awk 'NR == 2 { print $4 }'; }
writable() {
  file="$1/.yamata-probe.$$"
  if (: > "$file") 2>/dev/null; then rm -f "$file"; echo yes; fi
}
say home_free_kib "$(free_of "$HOME")"
say home_kind "$(stat -f -c %T "$HOME" 2>/dev/null)"
say home_writable "$(writable "$HOME")"
temporary="${TMPDIR:-/tmp}"
say temporary "$temporary"
say temporary_free_kib "$(free_of "$temporary")"
say temporary_writable "$(writable "$temporary")"
say shared_free_kib "$(free_of /dev/shm)"
say shared_writable "$(writable /dev/shm)"
say files "$(ulimit -n)"
say processes "$(ulimit -p 2>/dev/null || ulimit -u 2>/dev/null)"
say virtual "$(ulimit -v)"
say file_size "$(ulimit -f)"
say addresses "$(hostname -I 2>/dev/null)"
say routes "$(awk 'NR > 1 && $3 == "00000000" { printf "%s/%s/%s ", $1, $2, $8 }' /proc/net/route)"
say tcp "$(cat /proc/sys/net/ipv4/tcp_congestion_control 2>/dev/null)"
say time "$(date +%s)"
say fetched "$("$lib/yamata" fetch 2>/dev/null | awk '$3 ~ /^[0-9]+$/ {
  size = $2 " of " $3; for (i = 1; i <= 5; i++) sub(/^ *[^ ]+ */, ""); printf "%s (%s MiB), ", $0, size }')"
say leftovers "$(cat /proc/[0-9]*/comm 2>/dev/null | grep -c -x -e yamata -e yamata-guard -e orted)"
say end yes
