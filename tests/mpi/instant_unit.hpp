#pragma once
// A unit whose runs end as soon as they begin.
#include <utility>

#include "src/simulation/table_model.hpp"

namespace yamata::test {

class InstantUnit final : public simulation::TableUnit {
 public:
  void begin(const simulation::TableShape&, std::size_t, const std::atomic<bool>*, std::function<void(bool)> done) override {
    ++runs_;
    done(true);
  }
  bool finished() const override { return true; }
  bool wait_for(std::chrono::microseconds) override { return true; }
  std::uint64_t progress() const override { return runs_; }
  double busy_seconds() const override { return 0; }

 private:
  std::uint64_t runs_ = 0;
};

}  // namespace yamata::test
