#include "node/cuda/device/unit_memory.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace yamata::cuda {

/// A buffer that is registered in `lists` while it exists.
class UnitMemory::UnitBuffer final : public Buffer {
 public:
  UnitBuffer(std::unique_ptr<DeviceBuffer> memory, std::vector<std::shared_ptr<Owned>> lists)
      : memory_(std::move(memory)), lists_(std::move(lists)) {
    for (const auto& list : lists_) {
      const std::lock_guard lock(list->mutex);
      list->ranges[memory_->data()] = memory_->data() + memory_->size();
    }
  }
  ~UnitBuffer() override {
    for (const auto& list : lists_) {
      const std::lock_guard lock(list->mutex);
      list->ranges.erase(memory_->data());
    }
  }
  std::span<std::byte> host() override { return {memory_->data(), memory_->size()}; }

 private:
  std::unique_ptr<DeviceBuffer> memory_;
  std::vector<std::shared_ptr<Owned>> lists_;
};

std::shared_ptr<UnitMemory::Owned> UnitMemory::all_owned() {
  static const auto all = std::make_shared<Owned>();
  return all;
}

/// Activations are also used by the host; all else only by the device.
std::unique_ptr<Buffer> UnitMemory::allocate(std::size_t bytes, BufferUse use) {
  const bool copied = use == BufferUse::kCopiedWeights, mapped = use == BufferUse::kActivations || copied;
  std::vector<std::shared_ptr<Owned>> lists{owned_};
  if (copied) lists.push_back(copied_);
  return std::make_unique<UnitBuffer>(device_.allocate(bytes, mapped ? DeviceMemory::kMapped : DeviceMemory::kLocal), std::move(lists));
}

std::span<const std::byte> UnitMemory::copied_weights(const std::byte* at) const {
  const std::lock_guard lock(copied_->mutex);
  if (!contains(copied_->ranges, at, 1)) return {};
  const auto [begin, end] = *std::prev(copied_->ranges.upper_bound(at));
  return {begin, end};
}

void UnitMemory::begin() {
  in_use_ = filled_ = 0;
  sent_.clear();
  kept_ = {};
  device_.release_host();
}

std::byte* UnitMemory::arguments(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64, kMinBytes = 1 << 20;
  bytes = std::bit_ceil(std::max(bytes, kAlignment));  // so that later addresses rarely change: graphs contain them
  const std::size_t at = (filled_ + kAlignment - 1) / kAlignment * kAlignment;
  if (in_use_ > 0 && at + bytes <= arguments_[in_use_ - 1].mapped->size()) {
    filled_ = at + bytes;
    return arguments_[in_use_ - 1].mapped->data() + at;
  }
  while (in_use_ < arguments_.size() && arguments_[in_use_].mapped->size() < bytes) ++in_use_;
  if (in_use_ == arguments_.size()) arguments_.push_back({device_.allocate(std::max(bytes, kMinBytes), DeviceMemory::kMapped), nullptr});
  filled_ = bytes;
  return arguments_[in_use_++].mapped->data();
}

/// By a kernel, so that the copy can be part of a graph.
const std::byte* UnitMemory::own_arguments(const std::byte* arguments, std::size_t bytes) {
  const auto own = std::ranges::find_if(arguments_, [&](const Arguments& all) {
    return arguments >= all.mapped->data() && arguments < all.mapped->data() + all.mapped->size();
  });
  std::byte* const mapped = own->mapped->data() + (arguments - own->mapped->data());
  if (device_.properties().unified || bytes == 0) return mapped;
  if (!own->own) own->own = device_.allocate(own->mapped->size(), DeviceMemory::kLocal);
  std::byte* const to = own->own->data() + (mapped - own->mapped->data());
  const auto floats = static_cast<std::int64_t>(bytes / sizeof(float));
  device_.kernels().copy({reinterpret_cast<const float*>(mapped), nullptr, floats, 1, floats, reinterpret_cast<float*>(to), floats},
                         &launcher_);
  launcher_.named("copying arguments");
  return to;
}

const std::byte* UnitMemory::kept_bytes(std::string_view bytes) {
  if (const auto known = kept_values_.find(bytes); known != kept_values_.end()) return known->second->data();
  auto copy = device_.allocate(bytes.size(), DeviceMemory::kLocal);
  launcher_.copy_in(copy->data(), bytes.data(), bytes.size());  // throws before the copy is kept
  return kept_values_.emplace(bytes, std::move(copy)).first->second->data();
}

std::byte* UnitMemory::grown(std::unique_ptr<DeviceBuffer>& buffer, std::size_t bytes, DeviceMemory memory) {
  bytes = std::max(bytes, std::size_t{1});
  if (!buffer || buffer->size() < bytes) {
    launcher_.synchronize();  // kernels may be using it
    buffer.reset();           // both together may not fit
    buffer = device_.allocate(bytes, memory);
  }
  return buffer->data();
}

std::byte* UnitMemory::scratch(Scratch use, std::size_t bytes) {
  return grown(scratch_[static_cast<std::size_t>(use)], bytes, DeviceMemory::kLocal);
}

std::byte* UnitMemory::mapped_scratch(Scratch use, std::size_t bytes) {
  return grown(scratch_[static_cast<std::size_t>(use)], bytes, DeviceMemory::kMapped);
}

void UnitMemory::keep(const void* host, std::size_t bytes) {
  scratch(Scratch::kKept, bytes);
  kept_ = {static_cast<const std::byte*>(host), bytes};
}

bool UnitMemory::contains(const std::map<const std::byte*, const std::byte*>& ranges, const std::byte* begin, std::size_t bytes) {
  const auto after = ranges.upper_bound(begin);
  return after != ranges.begin() && begin + bytes <= std::prev(after)->second;
}

/// Merges adjacent ranges.
void UnitMemory::constant(std::span<const std::byte> bytes) {
  if (device_.properties().reads_host || bytes.empty()) return;
  const std::byte *begin = bytes.data(), *end = begin + bytes.size();
  auto at = constants_.upper_bound(end);
  while (at != constants_.begin() && std::prev(at)->second >= begin) {
    --at;
    begin = std::min(begin, at->first), end = std::max(end, at->second);
    at = constants_.erase(at);
  }
  constants_[begin] = end;
}

const std::byte* UnitMemory::address(const std::byte* host, std::size_t bytes) {
  const std::byte* const own = kept_.data();
  if (own && host >= own && host + bytes <= own + kept_.size()) return scratch(Scratch::kKept, kept_.size()) + (host - own);
  if (device_.properties().reads_host || bytes == 0) return host;
  {
    const std::lock_guard lock(owned_->mutex);
    if (contains(owned_->ranges, host, bytes)) return host;
  }
  if (!contains(constants_, host, bytes)) {
    device_.reach_host(host, bytes);
    return host;
  }
  auto& kept = copies_[{host, bytes}];
  if (!kept) {
    auto copy = device_.allocate(bytes, DeviceMemory::kLocal);
    launcher_.copy_in(copy->data(), host, bytes);  // throws before the copy is kept
    kept = std::move(copy);
  }
  return kept->data();
}

}  // namespace yamata::cuda
