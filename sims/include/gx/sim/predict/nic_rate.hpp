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
/// Source: the clouds' instance tables; Piz Daint: Aries injects 10.2 GB/s; Summit: two EDR ports.
inline constexpr std::array<RateWord, 16> machine_rates{
    {{"p2.16", 20},    {"p2-16", 20},     {"p2.8", 10},     {"p2-8", 10},   {"p3.16", 25},
     {"p3-16", 25},    {"p3.8", 10},      {"p3dn", 100},    {"p4d", 400},   {"p5.48", 3200},
     {"a2-high", 100}, {"nd40rs", 100},   {"nd96", 1600},   {"aries", 82},  {"daint", 82},
     {"summit", 200}}};

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
/// The first number before "gb", in "25 GbE", "100Gb/s", "200 Gbit/s", "12.5 GB/s"; or 0.
[[nodiscard]] inline double written_rate(const std::string& text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] < '0' || text[i] > '9') continue;
        char* end = nullptr;
        const double n = std::strtod(text.c_str() + i, &end);
        const std::string_view rest(end);
        const std::string_view unit = rest.substr(rest.find_first_not_of(" -") == rest.npos
                                                      ? 0 : rest.find_first_not_of(" -"));
        if (unit.starts_with("gb") || unit.starts_with("gigabit")) return n;
        i = static_cast<std::size_t>(end - text.c_str()) - 1;
    }
    return 0;
}

}  // namespace detail

/// Gb/s of "8 x InfiniBand HDR 200 Gb/s" (1,600), "25 GbE", "2x EDR", "p3.16xlarge"; 0: none said.
[[nodiscard]] inline double nic_gbps(std::string_view written) {
    const std::string all = lower(written);
    std::string_view text = all;
    const double n = detail::times(text);
    if (const double rate = detail::written_rate(std::string(text)); rate > 0) return n * rate;
    for (const RateWord& w : infiniband_rates)
        if (has(text, w.word)) return n * w.gbps;
    for (const RateWord& w : machine_rates)
        if (has(text, w.word)) return w.gbps;
    return 0;
}

}  // namespace gx::sim::predict
