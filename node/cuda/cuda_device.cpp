#include "node/cuda/cuda_device.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <utility>

#include "node/cuda/copy_stream.hpp"
#include "node/device_memory.hpp"
#include "node/error.hpp"

namespace yamata::cuda {
namespace {

/// Memory of the host or the device; the destructor frees it.
class CardBuffer final : public DeviceBuffer {
 public:
  enum class Kind { kMapped, kManaged, kOfDevice };
  /// `own`: it takes memory of the device.
  CardBuffer(int device, std::size_t bytes, Kind kind, bool own)
      : kind_(kind), bytes_(bytes), own_bytes_(own ? static_cast<std::int64_t>(bytes) : 0) {
    void* memory = nullptr;
    const std::size_t some = bytes > 0 ? bytes : 1;
    const cudaError_t error = kind == Kind::kMapped    ? cudaHostAlloc(&memory, some, cudaHostAllocMapped | cudaHostAllocPortable)
                              : kind == Kind::kManaged ? cudaMallocManaged(&memory, some, cudaMemAttachGlobal)
                                                       : cudaMalloc(&memory, some);
    if (error != cudaSuccess) {
      cudaGetLastError();  // clears the error
      throw std::bad_alloc();
    }
    data_ = static_cast<std::byte*>(memory);
    if (kind == Kind::kManaged) prefer(device, some);
    cudaMemset(data_, 0, some);
    cudaDeviceSynchronize();
    count_device_bytes(own_bytes_);
  }
  ~CardBuffer() override {
    kind_ == Kind::kMapped ? cudaFreeHost(data_) : cudaFree(data_);
    count_device_bytes(-own_bytes_);
  }
  std::byte* data() const override { return data_; }
  std::size_t size() const override { return bytes_; }

 private:
  /// It stays on the GPU, because the host rarely reads it. Only a hint: errors do not matter.
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
  std::int64_t own_bytes_;
  std::byte* data_ = nullptr;
};

/// A kernel gets more than 48 KiB of shared memory only on request. check() reports errors.
void request_shared(const simt::Launch& launch) {
  constexpr std::size_t kWithout = 48 << 10;
  if (launch.shared_bytes > kWithout)
    cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(launch.shared_bytes));
}

cudaError_t put(const simt::Launch& launch, cudaStream_t stream) {
  request_shared(launch);
  void* argument = const_cast<std::byte*>(launch.arguments);
  return cudaLaunchKernel(launch.kernel, dim3(launch.grid.x, launch.grid.y), dim3(launch.threads), &argument, launch.shared_bytes, stream);
}

cudaKernelNodeParams node_of(const simt::Launch& launch, void** argument) {
  *argument = const_cast<std::byte*>(launch.arguments);
  cudaKernelNodeParams node{};
  node.func = const_cast<void*>(launch.kernel);
  node.gridDim = dim3(launch.grid.x, launch.grid.y);
  node.blockDim = dim3(launch.threads);
  node.sharedMemBytes = static_cast<unsigned>(launch.shared_bytes);
  node.kernelParams = argument;
  return node;
}

/// A chain of kernels. `require` throws for errors.
class CardGraph final : public DeviceGraph {
 public:
  using Require = std::function<void(cudaError_t, const char*)>;
  CardGraph(std::span<const simt::Launch> launches, Require require) : require_(std::move(require)) {
    try {
      make(launches);
    } catch (...) {
      end();
      throw;
    }
  }
  ~CardGraph() override { end(); }
  void update(std::size_t number, const simt::Launch& launch) override {
    void* argument = nullptr;
    const cudaKernelNodeParams node = node_of(launch, &argument);
    require_(cudaGraphExecKernelNodeSetParams(runs_, nodes_.at(number), &node), "changing a graph");
  }
  void launch(cudaStream_t stream) { require_(cudaGraphLaunch(runs_, stream), "launching a graph"); }

 private:
  void make(std::span<const simt::Launch> launches) {
    require_(cudaGraphCreate(&graph_, 0), "making a graph");
    for (const simt::Launch& launch : launches) {
      request_shared(launch);
      void* argument = nullptr;
      const cudaKernelNodeParams params = node_of(launch, &argument);
      cudaGraphNode_t node = nullptr;
      require_(cudaGraphAddKernelNode(&node, graph_, nodes_.empty() ? nullptr : &nodes_.back(), nodes_.empty() ? 0 : 1, &params),
               "adding to a graph");
      nodes_.push_back(node);
    }
#if CUDART_VERSION >= 12000
    require_(cudaGraphInstantiate(&runs_, graph_, 0), "making a graph");
#else
    require_(cudaGraphInstantiate(&runs_, graph_, nullptr, nullptr, 0), "making a graph");
#endif
  }
  void end() {
    if (runs_) cudaGraphExecDestroy(runs_);
    if (graph_) cudaGraphDestroy(graph_);
  }

  const Require require_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t runs_ = nullptr;
  std::vector<cudaGraphNode_t> nodes_;
};

/// Whether launches are asynchronous.
bool launches_return() {
  const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  return !blocking || std::string(blocking) == "0";
}

/// Whether kernels are loaded at the start. By default CUDA loads one at its first launch, which may wait for the whole device.
bool loads_at_start() {
  const char* loading = std::getenv("CUDA_MODULE_LOADING");
  return loading && std::string(loading) == "EAGER";
}

/// Pages of the host that are registered for kernels; how many units of this process need each.
struct RegisteredPages {
  std::mutex mutex;
  std::map<const std::byte*, int> uses;

  static RegisteredPages& all() {
    static RegisteredPages its;
    return its;
  }
  cudaError_t add(std::byte* page, std::size_t bytes) {
    const std::lock_guard lock(mutex);
    if (uses[page]++ > 0) return cudaSuccess;
    const cudaError_t error = cudaHostRegister(page, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable);
    if (error != cudaSuccess) uses.erase(page);
    return error;
  }
  cudaError_t remove(const std::byte* page) {
    const std::lock_guard lock(mutex);
    const auto at = uses.find(page);
    if (at == uses.end() || --at->second > 0) return cudaSuccess;
    uses.erase(at);
    return cudaHostUnregister(const_cast<std::byte*>(page));
  }
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
    return &direct_;
  }
  std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, DeviceMemory memory) override;
  void copy_in(void* to, const void* from, std::size_t bytes) override;
  void reach_host(const void* begin, std::size_t bytes) override;
  void release_host() override;
  void check(const char* what) override { require(cudaGetLastError(), what); }
  std::unique_ptr<DeviceGraph> make_graph(std::span<const simt::Launch> launches) override {
    enter();
    return std::make_unique<CardGraph>(launches, [this](cudaError_t error, const char* what) { require(error, what); });
  }
  void launch(DeviceGraph& graph) override {
    enter();
    static_cast<CardGraph&>(graph).launch(stream_);
  }
  void require_well() override {
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state != cudaErrorNotReady) return require(state, "computing");
    cudaGetLastError();  // else the next check() would report it as an error of a launch
  }
  std::uint64_t mark() override;
  void wait(std::uint64_t mark) override;
  std::uint64_t copy_beside(void* to, const void* from, std::size_t bytes, std::uint64_t mark) override;
  void await_copy(std::uint64_t copy) override {
    enter();
    copies_->await(copy, stream_);
  }
  double copy_wait_s() const override { return copies_ ? copies_->waited_s() : 0; }
  void synchronize() override {
    enter();
    require(cudaStreamSynchronize(stream_), "waiting for it");
    if (copies_) copies_->synchronize();
  }

 private:
  struct Direct final : simt::LaunchSink {
    void put(const simt::Launch& launch) override { cuda::put(launch, stream); }  // check() reports errors
    cudaStream_t stream = nullptr;
  };
  /// Makes this GPU the current device of the calling thread.
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
  Direct direct_;
  std::uint64_t marks_ = 0, passed_ = 0;
  std::deque<cudaEvent_t> events_, spare_;  // events of the marks after passed_
  std::set<const std::byte*> reached_;      // registered pages
  std::unique_ptr<CopyStream> copies_;      // if there are any
};

CudaDevice::CudaDevice(int index) : index_(index) {
  enter();
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, index), "asking for its properties");
  std::size_t free = 0, all = 0;
  require(cudaMemGetInfo(&free, &all), "asking for its memory");
  const bool unified = attribute(cudaDevAttrIntegrated) != 0;
  // The stream may wait for the host only if kernels have no time limit, and the host may use managed memory meanwhile.
  const bool waits = launches_return() && loads_at_start() && attribute(cudaDevAttrKernelExecTimeout) == 0 &&
                     (unified || attribute(cudaDevAttrConcurrentManagedAccess) != 0);
  properties_ = {.name = properties.name,
                 .unified = unified,
                 .reads_host = unified && attribute(cudaDevAttrPageableMemoryAccess) != 0,  // else it would be read over the bus each time
                 .waits = waits,
                 .waits_alone = true,
                 .memory_bytes = all,
                 .free_bytes = free};
  require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  direct_.stream = stream_;
}

CudaDevice::~CudaDevice() {
  for (const auto& events : {events_, spare_}) {
    for (cudaEvent_t event : events) cudaEventDestroy(event);
  }
  for (const std::byte* page : reached_) RegisteredPages::all().remove(page);
  cudaStreamDestroy(stream_);
}

/// With unified memory, everything is pinned memory of the host: nothing is copied.
std::unique_ptr<DeviceBuffer> CudaDevice::allocate(std::size_t bytes, DeviceMemory memory) {
  enter();
  const bool mapped = properties_.unified || memory == DeviceMemory::kMapped;
  if (!mapped) {  // managed memory may exceed the GPU's memory; then its pages would migrate
    std::size_t free = 0, all = 0;
    require(cudaMemGetInfo(&free, &all), "asking for its memory");
    if (bytes > free) throw std::bad_alloc();
  }
  using enum CardBuffer::Kind;
  return std::make_unique<CardBuffer>(index_, bytes,
                                      mapped                           ? kMapped
                                      : memory == DeviceMemory::kLocal ? kManaged
                                                                       : kOfDevice,
                                      properties_.unified || memory != DeviceMemory::kMapped);
}

void CudaDevice::copy_in(void* to, const void* from, std::size_t bytes) {
  enter();
  require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copying to it");
}

std::uint64_t CudaDevice::copy_beside(void* to, const void* from, std::size_t bytes, std::uint64_t mark) {
  enter();
  if (!copies_) copies_ = std::make_unique<CopyStream>([this](cudaError_t error, const char* what) { require(error, what); });
  return copies_->copy(to, from, bytes, mark > passed_ ? events_.at(mark - passed_ - 1) : nullptr);
}

/// Registers whole pages, each once for this unit.
void CudaDevice::reach_host(const void* begin, std::size_t bytes) {
  static const auto kPage = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(begin) / kPage * kPage, end = reinterpret_cast<std::uintptr_t>(begin) + bytes;
  enter();
  for (std::uintptr_t page = first; page < end; page += kPage) {
    auto* memory = reinterpret_cast<std::byte*>(page);
    if (reached_.contains(memory)) continue;
    const cudaError_t error = RegisteredPages::all().add(memory, kPage);
    if (error == cudaErrorHostMemoryAlreadyRegistered) {  // by a library
      cudaGetLastError();
      continue;
    }
    require(error, "mapping memory of the host");
    reached_.insert(memory);
  }
}

void CudaDevice::release_host() {
  for (const std::byte* page : reached_) require(RegisteredPages::all().remove(page), "unmapping memory of the host");
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

/// Why CUDA finds no device.
std::string reason_of(cudaError_t error) {
  int driver = 0;
  if (error != cudaErrorInsufficientDriver || cudaDriverGetVersion(&driver) != cudaSuccess) return cudaGetErrorString(error);
  if (driver == 0) return "no NVIDIA driver is installed";
  return fmt::format("the NVIDIA driver supports CUDA {}.{}, but this program needs {}.{}: update the driver", driver / 1000,
                     driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

int device_count(std::string* why_none) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);  // after any error, there is no usable device
  if (error != cudaSuccess && why_none) *why_none = reason_of(error);
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
  throw UsageError(fmt::format("{}: {}; use cpu", name, why));
}

}  // namespace yamata::cuda
