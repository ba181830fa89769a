// Predictions of reducers on a measured network, by running them on a simulated cluster.
#include "predict.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <span>

#include <gx/core/error.hpp>
#include <gx/sim/fault/faults.hpp>
#include <gx/sim/world/cluster.hpp>

#include "reducers.hpp"

namespace gx::bench {

namespace {

/// A rank's endpoint as an MPI over TCP has it: a send of up to `eager_bytes` is done when it is
/// posted, since MPI copies it, and the messages from one rank to another follow each other on one
/// connection, each at the rate of the whole connection.
template <class Endpoint>
class Connections : public TransportOver<Endpoint> {
public:
    Connections(Endpoint& under, std::int64_t eager_bytes)
        : TransportOver<Endpoint>(under),
          eager_bytes_(eager_bytes),
          to_(static_cast<std::size_t>(under.ranks())) {}

    Request send(int to, int channel, std::span<const std::byte> message) {
        if (static_cast<std::int64_t>(message.size()) > eager_bytes_)
            return this->under().send(to, channel, message);
        Connection& c = to_[static_cast<std::size_t>(to)];
        c.messages.push_back({channel, {message.begin(), message.end()}});
        if (c.messages.size() == 1) start(to);
        return done;
    }
    Delivery wait(Request request) { return wait_any({&request, 1}).delivery; }
    Arrival wait_any(std::span<const Request> requests) {
        for (;;) {
            for (std::size_t i = 0; i < requests.size(); ++i)
                if (requests[i].id == done.id) return {i, {}};
            const Arrival arrival = wait_beside(requests);
            if (arrival.index < requests.size()) return arrival;
        }
    }
    /// Waits until all that was sent has arrived.
    void drain() {
        while (std::ranges::any_of(to_, [](const Connection& c) { return !c.messages.empty(); }))
            (void)wait_beside({});
    }

private:
    struct Message {
        int channel = 0;
        std::vector<std::byte> bytes{};
    };
    struct Connection {
        std::deque<Message> messages{};  // the first one is under way
        Request first{};
    };
    static constexpr Request done{0xffff'ffff};  // no ticket of the simulator

    void start(int to) {
        Connection& c = to_[static_cast<std::size_t>(to)];
        c.first = this->under().send(to, c.messages[0].channel, c.messages[0].bytes);
    }
    /// Until one of `requests` is done, or a connection is free for its next message; the index is
    /// then past the requests. No virtual time passes outside of waits, so it starts in time.
    Arrival wait_beside(std::span<const Request> requests) {
        std::vector<Request> all(requests.begin(), requests.end());
        std::vector<int> destinations;
        for (int to = 0; to < static_cast<int>(to_.size()); ++to) {
            const Connection& c = to_[static_cast<std::size_t>(to)];
            if (c.messages.empty()) continue;
            all.push_back(c.first);
            destinations.push_back(to);
        }
        const Arrival arrival = this->under().wait_any(all);
        if (arrival.index < requests.size()) return arrival;
        if (!arrival.delivery.complete()) throw Error("a simulated message is lost");
        const int to = destinations[arrival.index - requests.size()];
        Connection& c = to_[static_cast<std::size_t>(to)];
        c.messages.pop_front();
        if (!c.messages.empty()) start(to);
        return arrival;
    }

    std::int64_t eager_bytes_;
    std::vector<Connection> to_;
};

template <class R>
double time_ms(const sim::ClusterSpec& spec, std::int64_t bytes, std::int64_t eager_bytes,
               const std::vector<sim::Fault>& slow) {
    sim::ClusterOptions options{.charge_reducer_kernels = false, .faults_must_fire = false};
    if (!slow.empty()) options.faults = sim::FaultPlan(slow);
    sim::Cluster<> cluster(spec, options);
    cluster.run([&](auto& rank) {
        std::vector<float> values(static_cast<std::size_t>(bytes) / sizeof(float), 1.0f);
        R reducer;
        reducer.reserve(ReducePlan::whole(rank.transport().placement(),
                                          static_cast<std::int64_t>(values.size())));
        Connections link(rank.transport(), eager_bytes);
        if (!reducer.all_reduce(link, Bucket(values)).complete())
            throw Error("the simulated reduction is incomplete");
        link.drain();
    });
    return std::chrono::duration<double, std::milli>(cluster.elapsed()).count();
}

}  // namespace

double predict_ms(const std::string& reducer, std::int64_t bytes, const Network& network,
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
    double ms = -1;
    for_each_reducer([&]<class R> {
        if (reducer_name<R>() == reducer) ms = time_ms<R>(spec, bytes, network.eager_bytes, slow);
    });
    if (ms < 0) throw Error("reducer '" + reducer + "' is not predicted");
    return ms;
}

}  // namespace gx::bench
