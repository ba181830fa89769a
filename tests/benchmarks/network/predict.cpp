// Predictions of reducers on a measured network, by running them on a simulated cluster.
#include "predict.hpp"

#include <chrono>

#include <gx/core/error.hpp>
#include <gx/sim/fault/faults.hpp>
#include <gx/sim/world/cluster.hpp>

#include "connections.hpp"
#include "reducers.hpp"

namespace gx::bench {

namespace {

template <class R>
Predicted run(const sim::ClusterSpec& spec, std::int64_t bytes, std::int64_t eager_bytes,
              const std::vector<sim::Fault>& slow) {
    sim::ClusterOptions options{.charge_reducer_kernels = false, .faults_must_fire = false};
    if (!slow.empty()) options.faults = sim::FaultPlan(slow);
    sim::Cluster<> cluster(spec, options);
    Handshakes handshakes;
    cluster.run([&](auto& rank) {
        std::vector<float> values(static_cast<std::size_t>(bytes) / sizeof(float), 1.0f);
        R reducer;
        reducer.reserve(ReducePlan::whole(rank.transport().placement(),
                                          static_cast<std::int64_t>(values.size())));
        Connections link(rank.transport(), eager_bytes, handshakes);
        if (!reducer.all_reduce(link, Bucket(values)).complete())
            throw Error("the simulated reduction is incomplete");
        link.drain();
    });
    return {std::chrono::duration<double, std::milli>(cluster.elapsed()).count(),
            handshakes.both_ways()};
}

}  // namespace

Predicted predict(const std::string& reducer, std::int64_t bytes, const Network& network,
                  const sim::ClusterSpec& cluster, bool contention) {
    sim::ClusterSpec spec = cluster;
    std::vector<sim::Fault> slow;
    if (contention) {
        for (const SlowHost& s : network.slow)
            slow.push_back(sim::SlowLink{.wire = {.machine = s.host}, .share = s.share});
    } else {
        spec.fabric = sim::star();
        spec.flow_cap = {network.pair_bytes_per_s};
        spec.machine.nic_line_rate = spec.machine.nic_line_rate * double(network.hosts);
    }
    Predicted found;
    for_each_reducer([&]<class R> {
        if (reducer_name<R>() == reducer) found = run<R>(spec, bytes, network.eager_bytes, slow);
    });
    if (found.ms < 0) throw Error("reducer '" + reducer + "' is not predicted");
    return found;
}

}  // namespace gx::bench
