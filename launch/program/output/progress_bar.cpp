#include "launch/program/output/progress_bar.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace yamata {

void ProgressBar::operator()(double share) {
  const int percent = static_cast<int>(share * 100);
  if (percent == shown_) return;
  shown_ = percent;
  constexpr int kWidth = 40;
  const auto full = static_cast<std::size_t>(share * kWidth);
  fmt::print(stderr, "\r{} [{}{}] {:>3} %", label_, std::string(full, '#'), std::string(kWidth - full, ' '), percent);
  if (percent == 100) clear();
}

void ProgressBar::clear() {
  if (shown_ < 0) return;
  fmt::print(stderr, "\r{:60}\r", "");
  shown_ = -1;
}

}  // namespace yamata
