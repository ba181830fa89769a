#include <algorithm>  // shuffle
#include <random>     // order of posting
#include <vector>     // flows

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <sim/network/network_bench.hpp>  // Bench

namespace {

using gx::Nanoseconds;
using namespace gx::literals;

// ---- Properties ---------------------------------------------------------------------
struct AnyFlow {
    std::vector<int> path;
    std::int64_t bytes, start_us, cap;
    int weight;
};
struct AnyTraffic {
    std::vector<std::int64_t> rates;  // MB/s
    std::vector<AnyFlow> flows;
};
AnyTraffic any_traffic() {
    AnyTraffic t;
    t.rates = *rc::gen::nonEmpty(
        rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 5000)));
    const int count = *rc::gen::inRange(1, 20);
    for (int i = 0; i < count; ++i) {
        AnyFlow f;
        for (int l = 0; l < static_cast<int>(t.rates.size()) && f.path.size() < 6; ++l)
            if (*rc::gen::inRange(0, 3) == 0) f.path.push_back(l);
        f.bytes = *rc::gen::inRange(0, 5'000'000);
        f.start_us = *rc::gen::inRange(0, 50) * 10;  // several start at one instant
        const std::int64_t cap = *rc::gen::inRange(1, 2000) * std::int64_t{1'000'000};
        f.cap = *rc::gen::inRange(0, 3) == 0 ? cap : 0;
        f.weight = *rc::gen::inRange(1, 4);
        t.flows.push_back(f);
    }
    return t;
}
double rate_of(const AnyTraffic& t, int link) {
    return static_cast<double>(t.rates[static_cast<std::size_t>(link)]) * 1e6;
}
std::vector<Nanoseconds> ends(const AnyTraffic& t, const std::vector<std::size_t>& order,
                              Bench& b) {
    for (const auto rate : t.rates) b.link({static_cast<double>(rate) * 1e6});
    std::vector<gx::sim::Transfer> flows;
    for (const AnyFlow& f : t.flows) {
        flows.push_back(b.flow(f.path, {f.bytes}));
        flows.back().cap = {static_cast<double>(f.cap)};
        flows.back().weight = f.weight;
    }
    for (const std::size_t i : order) b.start_at(Nanoseconds(t.flows[i].start_us * 1000), flows[i]);
    b.engine.drain();
    return b.ended;
}
std::vector<std::size_t> in_order(const AnyTraffic& t) {
    std::vector<std::size_t> order(t.flows.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    return order;
}

RC_GTEST_PROP(FlowNetwork, AllBytesArriveAndNoLinkIsAboveItsRate, ()) {
    const AnyTraffic t = any_traffic();
    Bench b;
    const auto ended = ends(t, in_order(t), b);
    std::vector<std::int64_t> sent(t.rates.size(), 0);
    for (std::size_t i = 0; i < t.flows.size(); ++i) {
        const AnyFlow& f = t.flows[i];
        double slowest = f.cap > 0 ? static_cast<double>(f.cap) : 1e18;
        for (const int l : f.path) {
            sent[static_cast<std::size_t>(l)] += f.bytes;
            slowest = std::min(slowest, rate_of(t, l));
        }
        const double floor_ns = f.path.empty() ? 0 : static_cast<double>(f.bytes) / slowest * 1e9;
        RC_ASSERT(static_cast<double>(ended[i].count() - f.start_us * 1000) >= floor_ns - 0.5);
    }
    for (int l = 0; l < b.network.links(); ++l) {
        const double rate = rate_of(t, l);
        RC_ASSERT(b.network.carried(l).count == sent[static_cast<std::size_t>(l)]);
        RC_ASSERT(b.network.peak_load(l) <= 1.0);
        const double rounding = 0.5 * static_cast<double>(t.flows.size()) + 1;
        RC_ASSERT(static_cast<double>(sent[static_cast<std::size_t>(l)]) <=
                  rate * (gx::seconds(b.engine.now()) + rounding * 1e-9));
    }
}
RC_GTEST_PROP(FlowNetwork, TheOrderOfPostingChangesNothing, (std::uint32_t seed)) {
    AnyTraffic t = any_traffic();
    for (AnyFlow& f : t.flows) {  // many that are over in an instant, and few instants
        if (*rc::gen::arbitrary<bool>()) f.bytes %= 4;
        f.start_us %= 30;
    }
    Bench a, b;
    auto order = in_order(t);
    const auto straight = ends(t, order, a);
    std::shuffle(order.begin(), order.end(), std::minstd_rand(seed));
    RC_ASSERT(ends(t, order, b) == straight);
}
RC_GTEST_PROP(FlowNetwork, AnIdleLinkChangesNothing, ()) {
    AnyTraffic t = any_traffic();
    Bench a, b;
    const auto without = ends(t, in_order(t), a);
    t.rates.push_back(123);
    RC_ASSERT(ends(t, in_order(t), b) == without);
}

/// A link of its own, which it cannot fill, makes a flow differ from all others and changes
/// nothing else: then none is folded.
RC_GTEST_PROP(FlowNetwork, FoldedFlowsEndWhenTheyWouldAlone, ()) {
    AnyTraffic t = any_traffic();
    const bool brief = *rc::gen::arbitrary<bool>();
    const auto kinds = static_cast<std::size_t>(*rc::gen::inRange(1, 5));
    for (std::size_t i = 0; i < t.flows.size(); ++i) {
        AnyFlow& f = t.flows[i];
        const AnyFlow& kind = t.flows[i % std::min(kinds, t.flows.size())];
        f.path = kind.path;
        f.cap = kind.cap;
        f.weight = kind.weight;
        if (brief) f.bytes %= 40;
    }
    AnyTraffic apart = t;
    for (AnyFlow& f : apart.flows) {
        if (!f.path.empty()) f.path.push_back(static_cast<int>(apart.rates.size()));
        apart.rates.push_back(1'000'000);  // MB/s
    }
    Bench a, b;
    const int shared = *rc::gen::inRange(0, static_cast<int>(t.rates.size()));
    const Nanoseconds slow(*rc::gen::inRange(0, 600'000));
    for (Bench* bench : {&a, &b}) {  // it stands still for a while, and is slower from then on
        bench->set_at(slow, shared, {0});
        bench->set_at(slow + 100_us, shared, {0.7e6 * double(t.rates[std::size_t(shared)])});
    }
    RC_ASSERT(ends(t, in_order(t), a) == ends(apart, in_order(apart), b));
    for (int l = 0; l < a.network.links(); ++l) {
        RC_ASSERT(a.network.carried(l) == b.network.carried(l));
        RC_ASSERT(a.network.peak_load(l) == b.network.peak_load(l));
    }
    RC_ASSERT(a.network.flows_solved() <= b.network.flows_solved());
}

/// The definition of max-min, plainly, in double: raise the rates of all flows together in the
/// smallest step that fills a link or meets a cap, freeze those flows, and go on; then move time
/// to the next start or end. Whole, for every flow, at every event.
std::vector<double> plain_ends(const AnyTraffic& t) {
    const std::size_t n = t.flows.size(), links = t.rates.size();
    std::vector<double> left(n), end(n, -1);
    for (std::size_t i = 0; i < n; ++i) {
        left[i] = static_cast<double>(t.flows[i].bytes);
        const bool at_once = t.flows[i].bytes == 0 || t.flows[i].path.empty();
        if (at_once) end[i] = static_cast<double>(t.flows[i].start_us) * 1e-6;
    }
    double now = 0;
    for (;;) {
        std::vector<double> rate(n, 0);
        std::vector<bool> frozen(n, true);
        double next = 1e18;
        for (std::size_t i = 0; i < n; ++i) {
            const double start = static_cast<double>(t.flows[i].start_us) * 1e-6;
            if (end[i] < 0 && start <= now) frozen[i] = false;
            if (end[i] < 0 && start > now) next = std::min(next, start);
        }
        const auto moving = frozen;
        for (;;) {
            double step = 1e18;
            std::vector<double> used(links, 0), growth(links, 0);
            for (std::size_t i = 0; i < n; ++i)
                for (const int l : t.flows[i].path) {
                    used[static_cast<std::size_t>(l)] += rate[i];
                    if (!frozen[i]) growth[static_cast<std::size_t>(l)] += t.flows[i].weight;
                }
            std::vector<double> room(links, 1e18);
            for (std::size_t l = 0; l < links; ++l)
                if (growth[l] > 0) room[l] = (rate_of(t, int(l)) - used[l]) / growth[l];
            const auto own = [&](std::size_t i) {
                const AnyFlow& f = t.flows[i];
                double r = 1e18;
                if (f.cap > 0) r = (static_cast<double>(f.cap) - rate[i]) / f.weight;
                for (const int l : f.path) r = std::min(r, room[static_cast<std::size_t>(l)]);
                return r;
            };
            bool any = false;
            for (std::size_t i = 0; i < n; ++i)
                if (!frozen[i]) step = std::min(step, own(i)), any = true;
            if (!any) break;
            std::vector<bool> stop = frozen;
            for (std::size_t i = 0; i < n; ++i)
                if (!frozen[i] && own(i) <= step * (1 + 1e-9) + 1e-3) stop[i] = true;
            for (std::size_t i = 0; i < n; ++i)
                if (!frozen[i]) rate[i] += step * t.flows[i].weight;
            frozen = stop;
        }
        for (std::size_t i = 0; i < n; ++i)
            if (!moving[i]) next = std::min(next, now + left[i] / rate[i]);
        if (next >= 1e18) return end;
        for (std::size_t i = 0; i < n; ++i) {
            if (moving[i]) continue;
            left[i] -= rate[i] * (next - now);
            if (left[i] <= 1e-9 * static_cast<double>(t.flows[i].bytes)) end[i] = next;
        }
        now = next;
    }
}
RC_GTEST_PROP(FlowNetwork, EndsWhenAPlainMaxMinSimulationSays, ()) {
    const AnyTraffic t = any_traffic();
    Bench b;
    const auto ended = ends(t, in_order(t), b);
    const auto plain = plain_ends(t);
    for (std::size_t i = 0; i < ended.size(); ++i)
        RC_ASSERT(std::abs(gx::seconds(ended[i]) - plain[i]) <= 1e-6 * plain[i] + 1e-7);
}
RC_GTEST_PROP(FlowNetwork, EqualFlowsOnOneLinkEndTogether, ()) {
    const int flows = *rc::gen::inRange(1, 50);
    const std::int64_t bytes = *rc::gen::inRange(1, 1'000'000);
    Bench b;
    const int l = b.link(1_GBps);
    for (int i = 0; i < flows; ++i) b.start({l}, {bytes});
    b.engine.drain();
    for (const Nanoseconds t : b.ended) RC_ASSERT(t == b.ended[0]);
    RC_ASSERT(std::abs(b.ended[0].count() - flows * bytes) <= 1 + flows * bytes / 1'000'000'000);
}

}  // namespace
