// Other machines, from hwloc's XML files, and this machine.
#include "node/topology.hpp"

#include <gtest/gtest.h>
#include <numaif.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

#include "node/error.hpp"
#include "node/memory.hpp"
#include "tests/paths.hpp"

namespace yamata {
namespace {

/// Sets an environment variable during its life.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

Topology read_machine(const std::string& path) {
  const Environment file("HWLOC_XMLFILE", path);
  return Topology::detect();
}

struct Machine {
  const char* file;
  int cores, numa_nodes, threads_per_core;
};

class Machines : public testing::TestWithParam<Machine> {
 protected:
  /// The machine as if this process ran on it.
  Topology here() {
    Topology topology = topology_;
    topology.this_machine = true;
    return topology;
  }
  const Topology topology_ = read_machine(test::source_path("/tests/node/topologies/") + GetParam().file);
};

TEST_P(Machines, Detect_givesOneCpuPerCore) {
  EXPECT_FALSE(topology_.this_machine);
  EXPECT_EQ(topology_.numa_nodes, GetParam().numa_nodes);
  ASSERT_EQ(topology_.core_cpus.size(), static_cast<std::size_t>(GetParam().cores));
  for (int core = 0; core < GetParam().cores; ++core) {
    EXPECT_EQ(topology_.core_cpus[static_cast<std::size_t>(core)], core * GetParam().threads_per_core);
  }
}

TEST_P(Machines, AnotherMachine_bindsNothing) {
  const auto cpus = assign_cpus(topology_, 0, 0, 1);
  EXPECT_EQ(cpus, std::vector<int>(static_cast<std::size_t>(GetParam().cores), -1));
}

TEST_P(Machines, LocalRanks_shareTheCoresWithoutOverlap) {
  for (int ranks = 1; ranks <= GetParam().cores; ++ranks) {
    std::vector<int> all;
    std::size_t least = topology_.core_cpus.size(), most = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto cpus = assign_cpus(here(), 0, rank, ranks);
      all.insert(all.end(), cpus.begin(), cpus.end());
      least = std::min(least, cpus.size());
      most = std::max(most, cpus.size());
    }
    EXPECT_EQ(all, topology_.core_cpus) << ranks << " ranks";
    EXPECT_LE(most - least, 1u) << ranks << " ranks";
  }
}

TEST_P(Machines, RankPerNumaNode_staysOnItsNode) {
  const int nodes = GetParam().numa_nodes, per_node = GetParam().cores / nodes * GetParam().threads_per_core;
  for (int rank = 0; rank < nodes; ++rank) {
    for (const int cpu : assign_cpus(here(), 0, rank, nodes)) EXPECT_EQ(cpu / per_node, rank) << "cpu " << cpu;
  }
}

TEST_P(Machines, FewerThreadsThanCores_takeTheFirstOfTheShare) {
  const auto cpus = assign_cpus(here(), 2, 1, 2);
  const std::size_t half = topology_.core_cpus.size() / 2;
  EXPECT_EQ(cpus, (std::vector<int>{topology_.core_cpus[half], topology_.core_cpus[half + 1]}));
}

TEST_P(Machines, MoreThreadsThanCores_areUnbound) {
  const int many = GetParam().cores / 2 + 1;
  EXPECT_EQ(assign_cpus(here(), many, 0, 2), std::vector<int>(static_cast<std::size_t>(many), -1));
}

TEST_P(Machines, MoreRanksThanCores_getAThreadEach) {
  const int ranks = 2 * GetParam().cores + 1;
  std::multiset<int> bound;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto cpus = assign_cpus(here(), 0, rank, ranks);
    ASSERT_EQ(cpus.size(), 1u) << "rank " << rank;
    if (cpus[0] >= 0) bound.insert(cpus[0]);
  }
  EXPECT_EQ(std::vector<int>(bound.begin(), bound.end()), topology_.core_cpus);
}

INSTANTIATE_TEST_SUITE_P(Files, Machines,
                         testing::Values(Machine{"2s.xml", 32, 2, 2}, Machine{"biglittle.xml", 8, 1, 1}, Machine{"orin.xml", 8, 1, 1}),
                         [](const auto& info) { return "Machine" + std::filesystem::path(info.param.file).stem().string(); });

/// A machine's file as if this process ran there.
Topology as_here(const char* file) {
  Topology topology = read_machine(test::source_path("/tests/node/topologies/") + file);
  topology.this_machine = true;
  return topology;
}

TEST(Numa, Auto_keepsThreadsOnOneNodeAndDistributeUsesBoth) {
  const Topology machine = as_here("2s.xml");
  const auto near = assign_cpus(machine, 8, 0, 1), far = assign_cpus(machine, 8, 0, 1, Numa::kDistribute);
  EXPECT_EQ(nodes_of(machine, near), std::vector<int>{0});
  EXPECT_EQ(nodes_of(machine, far), (std::vector<int>{0, 1}));
  EXPECT_TRUE(std::is_sorted(far.begin(), far.end())) << "neighbouring rows of a matrix, one memory";
  EXPECT_EQ(std::count_if(far.begin(), far.end(), [](int cpu) { return cpu < 32; }), 4);
  EXPECT_EQ(nodes_of(machine, assign_cpus(machine, 0, 0, 1)), (std::vector<int>{0, 1})) << "all cores";
  EXPECT_EQ(assign_cpus(machine, 0, 0, 1, Numa::kDistribute), machine.core_cpus);
}

TEST(Numa, Off_bindsNothing) {
  const Topology machine = as_here("2s.xml");
  const auto cpus = assign_cpus(machine, 0, 1, 2, Numa::kOff);
  EXPECT_EQ(cpus, std::vector<int>(16, -1));
  EXPECT_TRUE(nodes_of(machine, cpus).empty());
}

TEST(Numa, FewThreads_takeTheFastCores) {
  const Topology machine = as_here("biglittle.xml");  // cores 4 to 7 are the big ones
  EXPECT_EQ(assign_cpus(machine, 4, 0, 1), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(assign_cpus(machine, 5, 0, 1), (std::vector<int>{0, 4, 5, 6, 7}));
  EXPECT_EQ(assign_cpus(machine, 2, 0, 2), (std::vector<int>{0, 1})) << "of its own share";
}

TEST(Numa, ThreadCounts_areAllTheFastCoresAndHalves) {
  const auto counts = [](const Topology& machine, int ranks) { return thread_counts(machine, assign_cpus(machine, 0, 0, ranks)); };
  EXPECT_EQ(counts(as_here("2s.xml"), 1), (std::vector<int>{32, 16, 8, 4, 2, 1}));
  Topology uneven = as_here("biglittle.xml");
  uneven.core_kinds = {0, 0, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(counts(uneven, 1), (std::vector<int>{8, 6, 4, 2, 1}));
  EXPECT_EQ(thread_counts(uneven, {-1, -1, -1}), (std::vector<int>{3, 1})) << "unbound";
}

/// A copy of a machine's file with a text replaced everywhere.
std::string changed_copy(const char* file, const std::string& from, const std::string& to) {
  std::ifstream in(test::source_path("/tests/node/topologies/") + file);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
  const std::string path = testing::TempDir() + "yamata_topology_" + std::to_string(getpid()) + ".xml";
  std::ofstream(path) << text;
  return path;
}

TEST(Topology, CpusNotAllowed_areLeftOut) {
  const std::string path = changed_copy("2s.xml", "allowed_cpuset=\"0xffffffff,0xffffffff\"", "allowed_cpuset=\"0x00000000,0x0000003a\"");
  const Topology topology = read_machine(path);
  std::filesystem::remove(path);
  EXPECT_EQ(topology.core_cpus, (std::vector<int>{1, 3, 4}));  // of cores 0 and 1 the second thread, of core 2 both
}

TEST(Topology, UnreadableFile_isAClusterError) {
  const std::string path = testing::TempDir() + "yamata_topology_broken_" + std::to_string(getpid()) + ".xml";
  std::ofstream(path) << "no topology";
  try {
    read_machine(path);
    ADD_FAILURE() << "it was read";
  } catch (const ClusterError& error) {
    EXPECT_NE(std::string(error.what()).find("HWLOC_XMLFILE"), std::string::npos) << error.what();
  }
  std::filesystem::remove(path);
}

TEST(Topology, ThisMachine_offersCpusThisProcessMayUse) {
  if (std::getenv("HWLOC_XMLFILE")) GTEST_SKIP() << "HWLOC_XMLFILE is set";
  const Topology topology = Topology::detect();
  EXPECT_TRUE(topology.this_machine);
  EXPECT_GE(topology.numa_nodes, 1);
  ASSERT_FALSE(topology.core_cpus.empty());
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
  for (const int cpu : topology.core_cpus) EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(cpu), &mine)) << "cpu " << cpu;
  const auto cpus = assign_cpus(topology, 0, 0, 1);
  EXPECT_EQ(cpus, topology.core_cpus);
}

TEST(Topology, BindingOfALauncher_isKeptUnlessWidened) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer has a thread of its own, which stays unbound";
#endif
  if (std::getenv("HWLOC_XMLFILE")) GTEST_SKIP() << "HWLOC_XMLFILE is set";
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const Topology whole = Topology::detect();
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(whole.core_cpus.back()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const Topology bound = Topology::detect();
  const Topology widened = Topology::detect(true);
  sched_setaffinity(0, sizeof(before), &before);
  EXPECT_EQ(bound.core_cpus, std::vector<int>{whole.core_cpus.back()});
  EXPECT_GE(widened.core_cpus.size(), whole.core_cpus.size());
}

TEST(Memory, Interleaved_isTheSystemsPolicyForThePages) {
  constexpr std::size_t kBytes = 1 << 20;
  PageMemory memory(kBytes), other(kBytes);
  if (!interleave({memory.data(), kBytes}, {0})) GTEST_SKIP() << "this system has no say in where memory lies";
  const auto policy = [](const PageMemory& of) {
    int mode = -1;
    EXPECT_EQ(get_mempolicy(&mode, nullptr, 0, of.data() + kBytes / 2, MPOL_F_ADDR), 0);
    return mode;
  };
  EXPECT_EQ(policy(memory), MPOL_INTERLEAVE);
  EXPECT_EQ(policy(other), MPOL_DEFAULT);
  EXPECT_FALSE(interleave({memory.data(), kBytes}, {})) << "nowhere";
}

TEST(Memory, Available_isWithinTheMachine) {
  std::ifstream in("/proc/meminfo");
  std::string key;
  std::size_t total_kib = 0;
  in >> key >> total_kib;
  ASSERT_EQ(key, "MemTotal:");
  EXPECT_GT(available_memory_bytes(), 0u);
  EXPECT_LE(available_memory_bytes(), total_kib * 1024);
}

TEST(Memory, Own_countsPagesWrittenAndNotTheMappedOnly) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer's shadow of the pages counts too";
#endif
  constexpr std::size_t kBytes = 64 << 20;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::size_t before = own_memory_bytes();
  EXPECT_GT(before, 0u);
  std::memset(memory, 1, kBytes);
  const std::size_t written = own_memory_bytes();
  munmap(memory, kBytes);
  EXPECT_GE(written, before + kBytes * 3 / 4);
  EXPECT_LE(written, before + kBytes * 5 / 4);
  EXPECT_LE(own_memory_bytes(), before + kBytes / 4);
}

}  // namespace
}  // namespace yamata
