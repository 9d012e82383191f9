#pragma once
// The front end at standard input and output.
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "launch/program/serving/engine_server.hpp"
#include "mpi/transport/transport.hpp"

namespace yamata {

/// Until the job serves, a thread says that this process lives, and the end of the input interrupts the start.
class StandardFrontEnd final : public FrontEnd {
 public:
  /// Lines wake `transport`, which outlives this.
  explicit StandardFrontEnd(Transport& transport);

  std::optional<std::string> take() override { return input_.take(); }
  /// With several ranks, this is known a moment later: a launcher that ends the job because a rank has ended closes the input first.
  bool input_ended() const override;
  void say_text(std::string message) override { output_.say(std::move(message)); }
  bool output_full() const override { return output_.full(); }
  bool output_lost() const override { return output_.lost(); }

  /// A rank has joined the job.
  void joined(int rank, const std::string& host);
  /// `share`: of all weights, that are loaded. Said four times a second at most.
  void loaded(double share);
  /// From now on the job itself says that it lives.
  void serves();
  /// The job ends because of this rank.
  void lost(int rank, const std::string& why);
  /// Nobody waits for the job any more.
  bool gone() const { return input_.ended() || output_.lost(); }

 private:
  void wake();

  Transport& transport_;
  std::atomic<bool> serving_{false};
  std::atomic<int> loaded_permille_{0};
  Clock::time_point loading_said_{};
  mutable std::optional<Clock::time_point> ended_since_;
  std::vector<std::string> hosts_;
  OutputLines output_;
  InputLines input_;
};

}  // namespace yamata
