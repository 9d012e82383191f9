#include "launch/program/serving/long_lines.hpp"

#include <malloc.h>

#include <utility>

namespace yamata {

LongLines::LongLines(LineReader& reader, std::function<void()> on_read) : reader_(reader), on_read_(std::move(on_read)) {
  thread_ = std::thread([this] { read_all(); });
}

LongLines::~LongLines() {
  give_up();
  thread_.join();
}

void LongLines::add(std::string line) {
  const std::lock_guard lock(mutex_);
  lines_.push_back(std::move(line));
  changed_.notify_one();
}

std::optional<ReadLine> LongLines::take() {
  const std::lock_guard lock(mutex_);
  if (read_.empty() || gives_up_) return std::nullopt;
  ReadLine read = std::move(read_.front());
  read_.pop_front();
  return read;
}

void LongLines::give_up() {
  const std::lock_guard lock(mutex_);
  gives_up_ = true;
  changed_.notify_one();
}

void LongLines::step() {
  ++progress_;
  if (gives_up_) throw GaveUp{};
}

void LongLines::read_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return gives_up_ || !lines_.empty(); });
    if (gives_up_) return;
    std::string line = std::exchange(lines_.front(), {});
    lines_.pop_front();
    lock.unlock();
    ReadLine read;
    try {
      read = reader_.read(line, [this] { step(); });
    } catch (const GaveUp&) {
      return;
    }
    ++progress_;
    constexpr std::size_t kLarge = 1 << 20;  // bytes
    const bool large = line.size() > kLarge;
    line = {};
    if (large) malloc_trim(0);  // tokenizing needs much more memory than the engine does otherwise
    lock.lock();
    read_.push_back(std::move(read));
    on_read_();
  }
}

}  // namespace yamata
