#include "node/cuda/cuda_device.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include <deque>
#include <new>
#include <set>

#include "node/error.hpp"

namespace yamata::cuda {
namespace {

/// Memory of one of the kinds that a card knows, given back at its end.
class CardBuffer final : public DeviceBuffer {
 public:
  enum class Kind { kMapped, kManaged };
  CardBuffer(int device, std::size_t bytes, Kind kind) : kind_(kind), bytes_(bytes) {
    void* memory = nullptr;
    const std::size_t some = bytes > 0 ? bytes : 1;
    const cudaError_t error = kind == Kind::kMapped ? cudaHostAlloc(&memory, some, cudaHostAllocMapped | cudaHostAllocPortable)
                                                    : cudaMallocManaged(&memory, some, cudaMemAttachGlobal);
    if (error != cudaSuccess) {
      cudaGetLastError();  // it is told of here
      throw std::bad_alloc();
    }
    data_ = static_cast<std::byte*>(memory);
    if (kind == Kind::kManaged) prefer(device, some);
    cudaMemset(data_, 0, some);
    cudaDeviceSynchronize();
  }
  ~CardBuffer() override { kind_ == Kind::kMapped ? cudaFreeHost(data_) : cudaFree(data_); }
  std::byte* data() const override { return data_; }
  std::size_t size() const override { return bytes_; }

 private:
  /// It stays on the card, where the host seldom looks. A hint: errors do not matter.
  void prefer(int device, std::size_t bytes) {
#if CUDART_VERSION >= 13000
    cudaMemAdvise(data_, bytes, cudaMemAdviseSetPreferredLocation, {cudaMemLocationTypeDevice, device});
    cudaMemAdvise(data_, bytes, cudaMemAdviseSetAccessedBy, {cudaMemLocationTypeDevice, device});
#else
    cudaMemAdvise(data_, bytes, cudaMemAdviseSetPreferredLocation, device);
    cudaMemAdvise(data_, bytes, cudaMemAdviseSetAccessedBy, device);
#endif
    cudaGetLastError();
  }

  Kind kind_;
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index);
  ~CudaDevice() override;

  std::string id() const override { return fmt::format("cuda:{}", index_); }
  const DeviceProperties& properties() const override { return properties_; }
  const DeviceKernels& kernels() const override { return kCudaKernels; }
  Stream stream() override {
    enter();
    return stream_;
  }
  std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, DeviceMemory memory) override;
  void copy_in(void* to, const void* from, std::size_t bytes) override;
  void reach_host(const void* begin, std::size_t bytes) override;
  void release_host() override;
  void check(const char* what) override { require(cudaGetLastError(), what); }
  std::uint64_t mark() override;
  void wait(std::uint64_t mark) override;
  void synchronize() override {
    enter();
    require(cudaStreamSynchronize(stream_), "waiting for it");
  }

 private:
  /// A thread of the host computes on the card that it has chosen last.
  void enter() { require(cudaSetDevice(index_), "choosing it"); }
  void require(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    throw ClusterError(fmt::format("device {}: {} failed: {}; run with --units cpu, or see what nvidia-smi says of it", id(), what,
                                   cudaGetErrorString(error)));
  }
  int attribute(cudaDeviceAttr which) {
    int value = 0;
    require(cudaDeviceGetAttribute(&value, which, index_), "asking for its properties");
    return value;
  }

  const int index_;
  DeviceProperties properties_;
  cudaStream_t stream_ = nullptr;
  std::uint64_t marks_ = 0, passed_ = 0;
  std::deque<cudaEvent_t> events_, spare_;  // of the marks after passed_
  std::set<const std::byte*> reached_;      // pages
};

CudaDevice::CudaDevice(int index) : index_(index) {
  enter();
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, index), "asking for its properties");
  std::size_t free = 0, all = 0;
  require(cudaMemGetInfo(&free, &all), "asking for its memory");
  properties_ = {properties.name, attribute(cudaDevAttrIntegrated) != 0, attribute(cudaDevAttrPageableMemoryAccess) != 0, all, free};
  require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

CudaDevice::~CudaDevice() {
  for (const auto& events : {events_, spare_}) {
    for (cudaEvent_t event : events) cudaEventDestroy(event);
  }
  for (const std::byte* page : reached_) cudaHostUnregister(const_cast<std::byte*>(page));
  cudaStreamDestroy(stream_);
}

/// Where its memory is the host's, everything is pinned there: nothing moves.
std::unique_ptr<DeviceBuffer> CudaDevice::allocate(std::size_t bytes, DeviceMemory memory) {
  enter();
  const bool mapped = properties_.unified || memory == DeviceMemory::kMapped;
  if (!mapped) {  // managed memory would be had beyond the card's, and wander
    std::size_t free = 0, all = 0;
    require(cudaMemGetInfo(&free, &all), "asking for its memory");
    if (bytes > free) throw std::bad_alloc();
  }
  return std::make_unique<CardBuffer>(index_, bytes, mapped ? CardBuffer::Kind::kMapped : CardBuffer::Kind::kManaged);
}

void CudaDevice::copy_in(void* to, const void* from, std::size_t bytes) {
  enter();
  require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copying to it");
}

/// By whole pages, each once.
void CudaDevice::reach_host(const void* begin, std::size_t bytes) {
  static const auto kPage = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(begin) / kPage * kPage, end = reinterpret_cast<std::uintptr_t>(begin) + bytes;
  enter();
  for (std::uintptr_t page = first; page < end; page += kPage) {
    auto* memory = reinterpret_cast<std::byte*>(page);
    if (!reached_.insert(memory).second) continue;
    require(cudaHostRegister(memory, kPage, cudaHostRegisterMapped | cudaHostRegisterPortable), "mapping memory of the host");
  }
}

void CudaDevice::release_host() {
  for (const std::byte* page : reached_) require(cudaHostUnregister(const_cast<std::byte*>(page)), "unmapping memory of the host");
  reached_.clear();
}

std::uint64_t CudaDevice::mark() {
  enter();
  cudaEvent_t event = nullptr;
  if (spare_.empty()) {
    require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  } else {
    event = spare_.front();
    spare_.pop_front();
  }
  events_.push_back(event);
  require(cudaEventRecord(event, stream_), "marking the stream");
  return ++marks_;
}

void CudaDevice::wait(std::uint64_t mark) {
  for (; passed_ < mark; ++passed_) {
    require(cudaEventSynchronize(events_.front()), "computing");
    spare_.push_back(events_.front());
    events_.pop_front();
  }
}

int device_count(std::string* why_none) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);  // whatever fails: there is no device to be had
  if (error != cudaSuccess && why_none) *why_none = cudaGetErrorString(error);
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess ? count : 0;
}

}  // namespace

std::vector<std::string> cuda_devices(std::string* why_none) {
  std::vector<std::string> names;
  const int count = device_count(why_none);
  for (int i = 0; i < count; ++i) names.push_back(fmt::format("cuda:{}", i));
  return names;
}

std::unique_ptr<Device> make_cuda_device(const std::string& name) {
  std::string why = "no CUDA device is there";
  const std::vector<std::string> names = cuda_devices(&why);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return std::make_unique<CudaDevice>(static_cast<int>(i));
  }
  if (!names.empty()) why = fmt::format("this machine has {}", fmt::join(names, ", "));
  throw UsageError(fmt::format("--units {}: {}; use --units cpu", name, why));
}

}  // namespace yamata::cuda
