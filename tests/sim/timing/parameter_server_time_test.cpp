#include <gx/sim/timing/parameter_server_time.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/sim/catalog/simple_clusters.hpp>  // GPUs

namespace {

using namespace gx::literals;
using gx::Bytes;
using gx::Nanoseconds;
using gx::sim::ClusterSpec;
using gx::sim::ParameterServers;
using gx::sim::served_step_time;
using gx::sim::StepWork;

/// Machines of one GPU and a NIC of 1 GB/s, without latency.
ClusterSpec plain(int machines, int gpus = 1) {
    ClusterSpec spec{.machine = {.name = "plain", .gpu = gx::sim::v100(), .gpus = gpus},
                     .machines = machines};
    spec.machine.peer_bandwidth = spec.machine.host_bandwidth = 100_GBps;
    spec.machine.nic_line_rate = 1_GBps;
    return spec;
}
/// Nothing but one key of 4 MB at the end of a backward of 10 ms.
StepWork one_key() {
    return {.forward = std::chrono::milliseconds(5),
            .backward = std::chrono::milliseconds(10),
            .update = {},
            .elements = 1'000'000,
            .ready = {{std::chrono::milliseconds(10), 0}}};
}
double exposed_ms(const ClusterSpec& spec, const ParameterServers& how) {
    return gx::seconds(served_step_time(one_key(), spec, how).exposed) * 1e3;
}

// ---- Worked by hand: 4 MB, NICs of 1 GB/s -----------------------------------------------
TEST(ServedStep, OneServerIsTheBottleneck) {
    // 4 workers push 4 MB each into one NIC: 16 ms; and pull 16 MB from it: 16 ms more.
    EXPECT_NEAR(exposed_ms(plain(4), {.servers = 1, .own_nic = 1_GBps}), 32, 1e-3);
}
TEST(ServedStep, AsManyServersAsWorkersUseEveryNic) {
    // Each NIC carries 4 MB out and then 4 MB in.
    EXPECT_NEAR(exposed_ms(plain(4), {.servers = 4, .own_nic = 1_GBps}), 8, 1e-3);
}
TEST(ServedStep, ServersOnWorkersKeepTheirShareAtHome) {
    // 3 of 4 parts of 1 MB leave and 3 arrive, push then pull.
    EXPECT_NEAR(exposed_ms(plain(4), {.servers = 4}), 6, 1e-3);
}
TEST(ServedStep, TheServersSumTakesItsTime) {
    // 4 parts of 1 MB on each server at 2 GB/s: 2 ms.
    EXPECT_NEAR(exposed_ms(plain(4), {.servers = 4, .own_nic = 1_GBps, .sum_rate = 2_GBps}), 10,
                1e-3);
}
TEST(ServedStep, ASmallKeyLivesOnOneServer) {
    const ParameterServers how{.servers = 4, .own_nic = 1_GBps, .split_from = 2'000'000};
    EXPECT_NEAR(exposed_ms(plain(4), how), 32, 1e-3);
}
TEST(ServedStep, OneMachineHasNoServers) {
    // 2 GPUs: 4 MB to the owner at 100 GB/s and back, 0.04 ms each.
    const auto t = served_step_time(one_key(), plain(1, 2), {});
    EXPECT_NEAR(gx::seconds(t.exposed) * 1e3, 0.08, 1e-3);
    EXPECT_EQ(t.sent_per_worker.count, 0);
}
TEST(ServedStep, WorkersSendTheGradientOnce) {
    const auto t = served_step_time(one_key(), plain(4), {.servers = 2, .own_nic = 1_GBps});
    EXPECT_EQ(t.sent_per_worker.count, 4'000'000);
    EXPECT_LE(t.server_load, 1.0);
}

// ---- Properties ---------------------------------------------------------------------------
RC_GTEST_PROP(ServedStep, IsNoFasterThanItsNicsAndOverlapsWithBackward, ()) {
    const int machines = *rc::gen::inRange(2, 6), servers = *rc::gen::inRange(1, 6);
    StepWork work = one_key();
    const std::int64_t cut = *rc::gen::inRange<std::int64_t>(1, work.elements);
    work.ready = {{std::chrono::milliseconds(2), cut}, {std::chrono::milliseconds(10), 0}};
    const ParameterServers how{.servers = servers, .own_nic = 1_GBps, .split_from = 1};
    const auto early = served_step_time(work, plain(machines), how);
    const auto late = served_step_time(one_key(), plain(machines), how);
    RC_ASSERT(early.step <= late.step + Nanoseconds(4));
    // All keys cross a worker's NIC up and down, and machines / servers of them each server's.
    const double up = 4.0 * std::max(1.0, double(machines) / servers);
    RC_ASSERT(gx::seconds(early.step) * 1e3 >= 5 + 2 + up - 1e-3);
    RC_ASSERT(gx::seconds(late.exposed) * 1e3 >= 2 * up - 1e-3);
}

}  // namespace
