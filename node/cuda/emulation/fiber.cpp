#include "node/cuda/emulation/fiber.hpp"

#include <atomic>
#include <boost/context/detail/fcontext.hpp>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

// The thread sanitizer counts function entries and exits. A function that leaves its stack for good has no exit, so it must not be counted.
#if defined(__SANITIZE_THREAD__)
#define YAMATA_NOT_COUNTED __attribute__((no_sanitize_thread, noinline))
#else
#define YAMATA_NOT_COUNTED
#endif

namespace yamata::simt {

namespace fc = boost::context::detail;

#if defined(__SANITIZE_THREAD__)
namespace {

/// For the thread sanitizer, all fibers of a thread are one other thread. With one for each, every switch would compare hundreds of
/// clocks.
class TsanFiber {
 public:
  TsanFiber() : handle_(__tsan_create_fiber(0)) {}
  ~TsanFiber() { __tsan_destroy_fiber(handle_); }
  TsanFiber(TsanFiber&&) = delete;
  void renew() { __tsan_destroy_fiber(std::exchange(handle_, __tsan_create_fiber(0))); }
  void* handle() const { return handle_; }

 private:
  void* handle_;
};
thread_local TsanFiber tsan_fiber;

}  // namespace
#endif

struct Fiber::Context {
  static void enter(fc::transfer_t from);  // entry point of a fiber

  fc::fcontext_t own{}, resumer{};
  // For the address sanitizer: the stacks that are not in use, and the stack of the resumer.
  void *own_fake = nullptr, *resumer_fake = nullptr;
  const void* resumer_stack = nullptr;
  std::size_t resumer_bytes = 0;
  void* resumer_tsan = nullptr;  // for the thread sanitizer
};

// Not initialized, so that only the pages in use take memory.
Fiber::Fiber() : memory_(new std::byte[kStackBytes + kShift * kShifts]), context_(std::make_unique<Context>()) {
  static std::atomic<std::size_t> made{0};
  stack_ = memory_.get() + made++ % kShifts * kShift;
}

Fiber::~Fiber() = default;

void Fiber::begin(void (*body)(void*), void* argument) {
  [[maybe_unused]] const bool given_up = !ended_;
  body_ = body, argument_ = argument, ended_ = false;
  context_->own_fake = nullptr;
  context_->own = fc::make_fcontext(stack_ + kStackBytes, kStackBytes, &Context::enter);
  // A body that was abandoned has left poisoned memory behind.
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(stack_, kStackBytes);
#elif defined(__SANITIZE_THREAD__)
  if (given_up) tsan_fiber.renew();
#endif
}

YAMATA_NOT_COUNTED void Fiber::Context::enter(fc::transfer_t from) {
  auto* self = static_cast<Fiber*>(from.data);
  self->context_->resumer = from.fctx;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self->context_->resumer_stack, &self->context_->resumer_bytes);
#endif
  self->body_(self->argument_);
  self->ended_ = true;
  self->switch_back(true);
}

void Fiber::resume() {
  Context& c = *context_;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&c.resumer_fake, stack_, kStackBytes);
#elif defined(__SANITIZE_THREAD__)
  c.resumer_tsan = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_fiber.handle(), 0);
#endif
  c.own = fc::jump_fcontext(c.own, this).fctx;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(c.resumer_fake, nullptr, nullptr);
#endif
}

void Fiber::yield() { switch_back(false); }

YAMATA_NOT_COUNTED void Fiber::switch_back([[maybe_unused]] bool for_good) {
  Context& c = *context_;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &c.own_fake, c.resumer_stack, c.resumer_bytes);
#elif defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(c.resumer_tsan, 0);
#endif
  c.resumer = fc::jump_fcontext(c.resumer, this).fctx;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(c.own_fake, &c.resumer_stack, &c.resumer_bytes);
#endif
}

}  // namespace yamata::simt
