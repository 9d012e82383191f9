// Properties of the CPU's unit; those of all units are tested in unit_contract_test.cpp.
#include "node/cpu/cpu_unit.hpp"

#include <gtest/gtest.h>

#include <new>

#include "tests/node/unit_scene.hpp"

namespace yamata {
namespace {

TEST(CpuUnit, MemoryThatCannotBeHad_isThrownByStartAndLeavesTheUnitUsable) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer ends the program where memory is refused";
#endif
  Layer layer, expected;
  CpuUnit team({-1, -1}, cpu::choose_isa()), alone({-1}, cpu::choose_isa());
  const std::vector<Op> ops{LinearOp{layer.x.data(), std::int64_t{1} << 54, 256, {{{&layer.w_q, layer.q.data()}, {}, {}}}, false}};
  EXPECT_THROW(team.start(ops, nullptr), std::bad_alloc);
  EXPECT_TRUE(team.finished());
  run(team, layer.ops);
  run(alone, expected.ops);
  EXPECT_EQ(layer.x, expected.x);
}

}  // namespace
}  // namespace yamata
