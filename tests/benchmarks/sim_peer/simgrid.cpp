// The ring of traffic.hpp in SimGrid: an actor per rank, flow-level network. One line: simulated
// seconds, processor seconds of construction and simulation, messages, the library's version.
// Run:  simgrid_peer HOSTS LEAF_HOSTS ROUNDS BYTES LATENCY_NS JITTER_NS HOST_BYTES_PER_SECOND
#include <ctime>
#include <cstdio>
#include <string>

#include <simgrid/s4u.hpp>
#include <simgrid/version.h>

#include "traffic.hpp"

namespace sg = simgrid::s4u;

static double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

int main(int argc, char** argv) {
    const double begin = cpu_seconds();
    sg::Engine e(&argc, argv);
    if (argc != 8) return 2;
    const traffic::Case c = traffic::parse(argv + 1);
    // The model without SimGrid's corrections for TCP, and its fastest settings.
    for (const char* option :
         {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0",
          "network/weight-S:0", "network/optim:Lazy", "contexts/factory:raw",
          "contexts/stack-size:64", "contexts/guard-size:0"})
        sg::Engine::set_config(option);

    // A half-route holds what one side crosses, so the star zone carries the leaf-spine too.
    auto* zone = e.get_netzone_root()->add_netzone_star("fabric");
    const auto leaf = traffic::leaf_of_ranks(c);
    const int leaves = c.leaf_hosts > 0 ? c.hosts / c.leaf_hosts : 0;
    std::vector<const sg::Link*> up, down;
    for (int l = 0; l < leaves; ++l) {
        const double rate = c.leaf_hosts * c.host_bytes_per_second / traffic::oversubscription;
        up.push_back(zone->add_link("up" + std::to_string(l), rate));
        down.push_back(zone->add_link("down" + std::to_string(l), rate));
    }
    const double half_latency = 0.5e-9 * double(c.latency_ns);
    std::vector<sg::Host*> hosts;
    for (int r = 0; r < c.hosts; ++r) {
        const std::string name = std::to_string(r);
        auto* host = zone->add_host("h" + name, 1e9);
        const auto* out =
            zone->add_link("out" + name, c.host_bytes_per_second)->set_latency(half_latency);
        const auto* in =
            zone->add_link("in" + name, c.host_bytes_per_second)->set_latency(half_latency);
        std::vector<sg::LinkInRoute> outward{sg::LinkInRoute(out)}, inward{sg::LinkInRoute(in)};
        if (leaves > 0) {
            outward.emplace_back(up[std::size_t(leaf[std::size_t(r)])]);
            inward.emplace(inward.begin(), down[std::size_t(leaf[std::size_t(r)])]);
        }
        zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, outward, false);
        zone->add_route(nullptr, host->get_netpoint(), nullptr, nullptr, inward, false);
        hosts.push_back(host);
    }
    zone->seal();

    for (int r = 0; r < c.hosts; ++r) {
        auto* out = sg::Mailbox::by_name("m" + std::to_string((r + 1) % c.hosts));
        auto* in = sg::Mailbox::by_name("m" + std::to_string(r));
        const auto actor = hosts[std::size_t(r)]->add_actor("rank", [&c, r, out, in] {
            static int payload = 0;
            for (int round = 0; round < c.rounds; ++round) {
                const std::int64_t sleep = traffic::sleep_ns(c, r, round);
                if (sleep > 0) sg::this_actor::sleep_for(1e-9 * double(sleep));
                auto sent = out->put_async(&payload, std::uint64_t(c.bytes));
                in->get<int>();
                sent->wait();
            }
        });
        in->set_receiver(actor);  // eager: a message starts before its receive is posted
    }
    e.run();
    const double spent = cpu_seconds() - begin;
    int major = 0, minor = 0, patch = 0;
    sg_version_get(&major, &minor, &patch);
    std::printf("%.12g %.9g %lld %d.%d\n", sg::Engine::get_clock(), spent,
                static_cast<long long>(c.hosts) * c.rounds, major, minor);
}
