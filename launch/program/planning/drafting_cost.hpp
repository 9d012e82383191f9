#pragma once
// The cost model of Dovetail (arXiv 2412.18934, equations 1 to 6): does a machine gain by drafting on one unit and verifying on another, or
// by copying the target's weights to its device for every token?
#include <string>
#include <utility>
#include <vector>

namespace yamata {

/// What is measured of a machine. All times in seconds.
struct DraftingTimes {
  double acceptance = 0;                           ///< alpha: probability that a guess is accepted if those before it are
  double token_s = 0;                              ///< T_T: a run of the target with one token
  std::vector<std::pair<int, double>> verify_s{};  ///< T_V: a run with so many guesses after its token
  double draft_s = 0;                              ///< T_D: an evaluation of the draft
  bool at_once = false;                            ///< one evaluation gives all guesses of a step (Medusa)
  double compute_s = 0, memory_s = 0;              ///< of a token of the cores' layers, at their peak rates (equation 3)
  double load_s = 0;                               ///< to copy all weights to the device; 0: there is no device
  double device_s = 0;                             ///< a token of all layers on the device
};

/// A step of drafting and verifying.
struct DraftingStep {
  int guesses = 0;
  double draft_s = 0, verify_s = 0;
  double compute_s = 0, memory_s = 0;  ///< T_comp, T_mem
  double overlap = 0;                  ///< lambda of equation 4, from the measured T_V: 0: none, or slower than both; 1: complete
  double tokens = 0;                   ///< Omega: of the text, per step
  double token_s = 0;                  ///< T_avg (equation 1)
  double speedup = 0;                  ///< over runs of one token (equation 6)
};

/// Omega: expected tokens of a step with a chain of so many guesses.
double expected_tokens(double acceptance, int guesses);
/// A step for each of the measured numbers of guesses.
std::vector<DraftingStep> drafting_steps(const DraftingTimes& times);
/// Time of a token if the device computes all layers and loads their weights meanwhile; 0: there is no device.
double offload_token_s(const DraftingTimes& times);
/// A row per step, and a line that says what pays (equations 2 and 5).
std::string to_table(const DraftingTimes& times);
/// The same as JSON: `steps`, `token_s`, `offload_token_s`.
std::string to_json(const DraftingTimes& times);

}  // namespace yamata
