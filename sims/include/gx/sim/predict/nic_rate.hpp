// nic_gbps: the rate of a machine's NICs, from whatever words tell it.
#pragma once

#include <array>        // the tables
#include <cstdlib>      // strtod
#include <string>       // text
#include <string_view>  // words

#include <gx/sim/predict/units.hpp>  // lower, has

namespace gx::sim::predict {

/// A word and the rate that it stands for, in Gb/s.
struct RateWord {
    std::string_view word;
    double gbps;
};
/// Four lanes of InfiniBand, signalled. Source: NVIDIA/nccl src/transport/net_ib/init.cc.
inline constexpr std::array<RateWord, 6> infiniband_rates{
    {{"qdr", 40}, {"fdr", 56}, {"edr", 100}, {"hdr", 200}, {"ndr", 400}, {"xdr", 800}}};
/// Machines by what their names share, a machine's NICs together.
/// Source: the clouds' instance tables; NVIDIA's DGX data sheets (four, eight, eight and eight
///         ports); Piz Daint: Aries injects 10.2 GB/s; Summit, ABCI: two EDR ports; Frontier,
///         Perlmutter: four of Slingshot's 200 Gb/s.
inline constexpr std::array<RateWord, 32> machine_rates{
    {{"p2.16", 20},    {"p2-16", 20},     {"p2.8", 10},     {"p2-8", 10},   {"p3.16", 25},
     {"p3-16", 25},    {"p3.8", 10},      {"p3dn", 100},    {"p4d", 400},   {"p5.48", 3200},
     {"p5e", 3200},    {"g4dn.12", 50},   {"g4dn.metal", 100}, {"g5.48", 100}, {"g6.48", 100},
     {"a2-", 100},     {"a3-mega", 1600}, {"a3-high", 800}, {"nd40rs", 100}, {"nd96isr", 3200},
     {"nd96", 1600},   {"dgx-1", 400},    {"dgx-2", 800},   {"dgx a100", 1600},
     {"dgx-a100", 1600}, {"dgx h100", 3200}, {"aries", 82}, {"daint", 82},  {"summit", 200},
     {"abci", 200},    {"frontier", 800}, {"perlmutter", 800}}};

namespace detail {

/// N of "N x ..." or "N × ...", where it opens the text; else 1. `text` goes on behind it.
[[nodiscard]] inline double times(std::string_view& text) {
    std::size_t i = 0;
    double n = 0;
    for (; i < text.size() && '0' <= text[i] && text[i] <= '9'; ++i) n = n * 10 + (text[i] - '0');
    while (i < text.size() && text[i] == ' ') ++i;
    const std::string_view rest = text.substr(i);
    const bool sign = rest.starts_with("\xc3\x97");
    if (n < 1 || n > 64 || !(sign || (rest.starts_with("x") && rest != "x"))) return 1;
    text = rest.substr(sign ? 2 : 1);
    return n;
}
/// The first number before a unit of rate, in "25 GbE", "100Gb/s", "200 Gbit/s", "1.6 Tb/s" and
/// "12.5 GB/s", a hundred; or 0. "16GB" is memory, unless text is
/// `bare`, of networks alone: then "200G" is a rate, too.
[[nodiscard]] inline double written_rate(std::string_view written, bool bare) {
    const std::string text = lower(written);
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] < '0' || text[i] > '9') continue;
        char* end = nullptr;
        const double n = std::strtod(text.c_str() + i, &end);
        auto at = static_cast<std::size_t>(end - text.c_str());
        while (at < text.size() && (text[at] == ' ' || text[at] == '-')) ++at;
        const std::string_view unit = std::string_view(text).substr(at);
        const double scale = unit.starts_with("t") ? 1000 : 1;
        if (unit.starts_with("gigabit")) return n;
        if (unit.starts_with("gb") || unit.starts_with("tb")) {
            const std::string_view after = unit.substr(2);
            const bool rate = after.starts_with("/s") || after.starts_with("ps");
            const bool network = bare || after.starts_with("e") || after.starts_with("it");
            if (rate && written[at + 1] == 'B') return n * scale * 8;
            if (rate || network) return n * scale;
        }
        const bool alone = unit == "g" || unit.starts_with("g ") || unit.starts_with("g,");
        if (bare && alone) return n;
        i = static_cast<std::size_t>(end - text.c_str()) - 1;
    }
    return 0;
}
[[nodiscard]] inline double named_rate(std::string_view text) {
    for (const RateWord& w : infiniband_rates)
        if (has(text, w.word)) return w.gbps;
    return 0;
}

}  // namespace detail

/// Gb/s that a machine's name or description tells, as "p3.16xlarge" or "4 nodes, 25 GbE"; 0: none.
[[nodiscard]] inline double machine_gbps(std::string_view written) {
    if (const double rate = detail::written_rate(written, false); rate > 0) return rate;
    const std::string text = lower(written);
    for (const RateWord& w : machine_rates)
        if (has(text, w.word)) return w.gbps;
    return 0;
}

/// Gb/s of "8 x InfiniBand HDR 200 Gb/s" (1,600), "25 GbE", "2x EDR", "p3.16xlarge"; 0: none said.
[[nodiscard]] inline double nic_gbps(std::string_view written) {
    std::string_view text = written;
    const double n = detail::times(text);
    if (const double rate = detail::written_rate(text, true); rate > 0) return n * rate;
    if (const double rate = detail::named_rate(lower(text)); rate > 0) return n * rate;
    return machine_gbps(written);
}

}  // namespace gx::sim::predict
