#include "src/gguf/mapping.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

namespace yamata::gguf {

void File::release_pages() const {
  for (const auto& mapping : mappings_) mapping->release();
}

std::size_t File::resident_bytes() const {
  // In /proc/self/smaps, each mapping begins with "begin-end ...", and some lines later has "Rss: N kB".
  std::ifstream smaps("/proc/self/smaps");
  std::size_t total = 0;
  bool ours = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long begin = 0, end = 0, kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      ours = std::any_of(mappings_.begin(), mappings_.end(), [&](const auto& m) {
        const auto from = reinterpret_cast<std::uintptr_t>(m->bytes.data());
        return begin >= from && begin < from + m->bytes.size();
      });
    } else if (ours && std::sscanf(line.c_str(), "Rss: %lu kB", &kib) == 1) {
      total += kib * 1024;
    }
  }
  return total;
}

}  // namespace yamata::gguf
