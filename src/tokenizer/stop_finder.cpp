#include "src/tokenizer/stop_finder.hpp"

#include <algorithm>
#include <utility>

namespace yamata {

StopFinder::StopFinder(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopFinder::push(std::string_view text) {
  if (found_) return {};
  pending_ += text;
  if (stops_.empty()) return std::exchange(pending_, {});
  std::size_t begin = std::string::npos, end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = pending_.find(stop);
    if (at == std::string::npos) continue;
    const std::size_t its_end = at + stop.size();
    if (end != std::string::npos && (its_end > end || (its_end == end && at > begin))) continue;
    begin = at;
    end = its_end;
  }
  found_ = end != std::string::npos;
  const std::size_t ready = found_ ? begin : pending_.size() - held_back();
  std::string out = pending_.substr(0, ready);
  found_ ? pending_.clear() : static_cast<void>(pending_.erase(0, ready));
  return out;
}

/// Length of the longest end of the pending text with which a stop string begins.
std::size_t StopFinder::held_back() const {
  std::size_t most = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(stop.size() - 1, pending_.size()); length > most; --length) {
      if (std::string_view(pending_).ends_with(std::string_view(stop).substr(0, length))) most = length;
    }
  }
  return most;
}

std::string StopFinder::finish() { return std::exchange(pending_, {}); }

}  // namespace yamata
