// nccl-tests' output: the bodies.
#pragma once

#include <algorithm>     // max
#include <charconv>      // from_chars
#include <cmath>         // abs
#include <cstdio>        // sscanf
#include <set>           // hosts
#include <system_error>  // errc

#include <fmt/core.h>  // sentences

#include <gx/core/error.hpp>         // Error
#include <gx/sim/io/nccl_tests.hpp>  // NcclTests

namespace gx::sim {

namespace detail::nccl_tests {

using Words = std::vector<std::string_view>;

[[nodiscard]] inline Words words_of(std::string_view line) {
    Words all;
    for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != line.npos;) {
        const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
        all.push_back(line.substr(at, end - at));
        at = end;
    }
    return all;
}

/// The whole of a word as a number; -1: it is none, or a negative one.
[[nodiscard]] inline double number(std::string_view word) {
    double x = -1;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), x);
    const bool whole = read.ec == std::errc{} && read.ptr == word.data() + word.size();
    return whole && x >= 0 && x < 1e18 ? x : -1;
}

/// A line without what a launcher that was asked for the rank of each line has put before it:
/// "[1,0]<stdout>:" (mpirun --tag-output of Open MPI), "0: " (srun -l), "[0] " (mpiexec -l of
/// MPICH). One of standard error is empty.
[[nodiscard]] inline std::string_view without_rank(std::string_view line) {
    const std::size_t digits = line.find_first_not_of("0123456789 ");
    if (digits != line.npos && digits > 0 && line.substr(digits, 2) == ": ")
        return line.substr(digits + 2);
    const std::size_t end = line.find(']');
    if (!line.starts_with('[') || end == line.npos) return line;
    const std::string_view rest = line.substr(end + 1);
    for (const std::string_view tag : {"<stdout>:", "<stderr>:"})
        if (rest.starts_with(tag)) {
            const std::size_t said = rest.find_first_not_of(' ', tag.size());
            return tag == "<stdout>:" && said != rest.npos ? rest.substr(said) : "";
        }
    const bool number = line.substr(1, end - 1).find_first_not_of("0123456789") == line.npos;
    return number && end > 1 && rest.starts_with(' ') ? rest.substr(1) : line;
}

/// NCCL's version code as it is written: 22803 is 2.28.3, and before 2.9 2708 is 2.7.8.
[[nodiscard]] inline std::string library_of(int code) {
    const int unit = code < 10'000 ? 1000 : 10'000;
    return fmt::format("{}.{}.{}", code / unit, code % unit / 100, code % 100);
}

class Reader {
public:
    Reader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

    [[nodiscard]] NcclTests all() {
        for (std::size_t at = 0; at < text_.size(); ++line_) {
            const std::size_t end = std::min(text_.find('\n', at), text_.size());
            line(without_rank(text_.substr(at, end - at)));
            at = end + 1;
        }
        if (columns_ == 0)
            throw Error(file_ +
                        ": no line '# size count type redop ...': expected what all_reduce_perf "
                        "of nccl-tests prints");
        if (!ended_)
            throw Error(
                fmt::format("{}: line {}: the file ends without '# Avg bus bandwidth': the "
                            "run did not end, or its output was cut; give the whole of it",
                            file_, line_ - 1));
        if (out_.rows.empty())
            throw Error(file_ + ": no size was timed: run all_reduce_perf -b 1M -e 1G -f 2");
        out_.hosts = static_cast<int>(hosts_.size());
        return std::move(out_);
    }

private:
    [[noreturn]] void wrong(const std::string& why) const {
        throw Error(fmt::format("{}: line {}: {}", file_, line_, why));
    }

    void line(std::string_view text) {
        const Words w = words_of(text);
        if (w.empty()) return;
        if (w[0] == "#" && w.size() > 1) comment(w, text);
        else if (columns_ > 0 && !ended_ && number(w[0]) >= 0) row(w);
    }
    void comment(const Words& w, std::string_view text) {
        const std::string line(text);
        if (w[1] == "size" && w.size() > 2 && w[2] == "count") header(w);
        else if (w[1] == "Rank") device(line);
        else if (w[1] == "Avg" && w.size() > 2 && w[2] == "bus") ended_ = true;
        else if (w[1] == "Out" && w.back() == "FAILED")
            wrong("values out of bounds: the network or a GPU is broken; no time of it is used");
        else if (w[1] == "nccl-tests" && w.size() > 3) version(w);
        else if (w[1] == "Collective" && w.back() != "all_reduce_perf" &&
                 !w.back().ends_with("/all_reduce_perf") &&
                 !w.back().starts_with("all_reduce_perf"))
            wrong(fmt::format("the output of {}: expected that of all_reduce_perf", w.back()));
    }
    void version(const Words& w) {
        out_.version = w[3];
        constexpr std::string_view key = "nccl-library=";
        for (const std::string_view word : w)
            if (const double code = word.starts_with(key) ? number(word.substr(key.size())) : -1;
                code >= 0 && code < 1e6)
                out_.library = library_of(static_cast<int>(code));
    }
    void device(const std::string& line) {
        if (columns_ > 0) wrong("a second run in one file: give a file for each");
        int rank = -1, read = 0;
        char host[256] = "";
        if (std::sscanf(line.c_str(), "# Rank %d Group %*d Pid %*d on %255s device %*d [%*[^]]] %n",
                        &rank, host, &read) != 2 &&
            std::sscanf(line.c_str(), "# Rank %d Pid %*d on %255s device %*d [%*[^]]] %n", &rank,
                        host, &read) != 2)
            wrong("expected '# Rank N Group N Pid N on HOST device N [BUS] NAME'");
        if (rank != out_.ranks)
            wrong(fmt::format(
                "rank {} where rank {} was expected{}", rank, out_.ranks,
                rank == 0 ? ": each process ran alone; build nccl-tests with MPI=1" : ""));
        if (rank == 0 && read > 0) out_.gpu = line.substr(static_cast<std::size_t>(read));
        ++out_.ranks;
        hosts_.insert(host);
    }
    /// A size's columns, then twice those of a time: out of place and in place.
    void header(const Words& w) {
        if (out_.ranks < 2)
            wrong(fmt::format("{} ranks in '# Using devices': expected 2 or more", out_.ranks));
        const Words names(w.begin() + 1, w.end());
        const auto is = [&](std::initializer_list<std::string_view> size,
                            std::initializer_list<std::string_view> half) {
            Words all(size);
            first_ = all.size();
            half_ = half.size();
            all.insert(all.end(), half), all.insert(all.end(), half);
            if (names.size() == all.size() + 1 && names.back() == "timestamp")
                all.push_back("timestamp");
            return names == all;
        };
        if (!is({"size", "count", "type", "redop", "root"}, {"time", "algbw", "busbw", "#wrong"}) &&
            !is({"size", "count", "type", "redop", "root"},
                {"time", "algbw", "busbw", "#wrong", "i_min", "i_max", "i_p99", "i_cv%"}) &&
            !is({"size", "count", "type", "redop"}, {"time", "algbw", "busbw", "error"}))
            wrong(
                "columns of a version of nccl-tests that is not read: expected 'size count type "
                "redop root', then twice 'time algbw busbw #wrong' (without -C), or, before 2022, "
                "'size count type redop' and twice 'time algbw busbw error'");
        counts_wrong_ = first_ == 5;
        columns_ = first_ + 2 * half_;
    }
    void row(const Words& w) {
        if (w.size() < columns_)
            wrong(fmt::format("{} columns where {} were expected: the row was cut", w.size(),
                              columns_));
        if (w[3] != "sum" && w[3] != "avg")
            wrong(fmt::format("redop is {}: expected sum, of all_reduce_perf", w[3]));
        NcclTests::Row r{.bytes = {static_cast<std::int64_t>(number(w[0]))}};
        r.out_of_place = time(w, first_, r.bytes);
        r.in_place = time(w, first_ + half_, r.bytes);
        out_.rows.push_back(r);
    }
    /// The time that stands at column `i`, with its bandwidths, in microseconds and GB/s.
    [[nodiscard]] Nanoseconds time(const Words& w, std::size_t i, Bytes bytes) const {
        const double us = number(w[i]), algorithm = number(w[i + 1]), bus = number(w[i + 2]);
        if (!(us > 0) || algorithm < 0 || bus < 0)
            wrong(fmt::format("'{} {} {}' is not a time above 0 and two bandwidths", w[i], w[i + 1],
                              w[i + 2]));
        if (counts_wrong_ && w[i + 3] != "N/A" && number(w[i + 3]) != 0)
            wrong(
                fmt::format("{} wrong values: the network or a GPU is broken; no time of it is "
                            "used",
                            w[i + 3]));
        const double n = out_.ranks, moved = static_cast<double>(bytes.count) * 1e-3 / us;
        const auto near = [](double x, double y) { return std::abs(x - y) <= 0.02 * y + 0.011; };
        if (!near(algorithm, moved))
            wrong(fmt::format("algbw is {} GB/s where {} bytes in {} us are {:.2f}", w[i + 1],
                              bytes.count, w[i], moved));
        const double around = moved * 2 * (n - 1) / n;  // algbw has no digits of small buffers
        if (!near(bus, around))
            wrong(
                fmt::format("busbw is {} GB/s where an all-reduce of {} ranks has {:.2f}: "
                            "expected the output of all_reduce_perf",
                            w[i + 2], out_.ranks, around));
        return nanoseconds(us * 1e-6);
    }

    std::string_view text_;
    const std::string& file_;
    NcclTests out_{};
    std::set<std::string> hosts_{};
    std::size_t columns_ = 0, first_ = 0, half_ = 0;
    long line_ = 1;
    bool counts_wrong_ = false, ended_ = false;
};

}  // namespace detail::nccl_tests

GX_DECL NcclTests read_nccl_tests(std::string_view text, const std::string& file) {
    return detail::nccl_tests::Reader(text, file).all();
}

GX_DECL RingRates ring_rates(const NcclTests& tests, const std::string& file) {
    constexpr std::int64_t least = 1'000'000;
    // (a + b x) / t is 1: u = 1 / t and v = x / t, in seconds and bytes
    double uu = 0, uv = 0, vv = 0, u = 0, v = 0;
    std::set<std::int64_t> sizes;
    for (const NcclTests::Row& r : tests.rows) {
        if (r.bytes.count < least) continue;
        sizes.insert(r.bytes.count);
        const double du = 1 / seconds(r.in_place), dv = static_cast<double>(r.bytes.count) * du;
        uu += du * du, uv += du * dv, vv += dv * dv, u += du, v += dv;
    }
    if (sizes.size() < 2)
        throw Error(
            fmt::format("{}: {} size{} of 1 MB and more: expected 2 or more; run "
                        "all_reduce_perf -b 1M -e 1G -f 2",
                        file, sizes.size(), sizes.size() == 1 ? "" : "s"));
    double a = (u * vv - v * uv) / (uu * vv - uv * uv), b = (v - a * uv) / vv;
    if (a < 0) a = 0, b = v / vv;
    if (!(b > 0))
        throw Error(file +
                    ": times do not grow with size from 1 MB on: expected buffers that fill "
                    "the network; run all_reduce_perf -b 1M -e 1G -f 2");
    const double n = tests.ranks;
    return {{2 * (n - 1) / n / b}, nanoseconds(a / (2 * (n - 1)))};
}

GX_DECL ClusterSpec with_measured(ClusterSpec c, const NcclTests& tests, const std::string& file) {
    const RingRates rates = ring_rates(tests, file);
    if (tests.ranks != tests.hosts * c.machine.gpus)
        throw Error(
            fmt::format("{}: {} ranks on {} host{}, where machine '{}' has {} GPU{}: run "
                        "all_reduce_perf on all GPUs of each host",
                        file, tests.ranks, tests.hosts, tests.hosts == 1 ? "" : "s",
                        c.machine.name.view(), c.machine.gpus, c.machine.gpus == 1 ? "" : "s"));
    const auto hop = [&](LinkClass link) -> PerAlgorithm& {
        return c.profile.collective.hop[static_cast<std::size_t>(link)];
    };
    MachineSpec& m = c.machine;
    c.profile.name = c.profile.name + ", measured";
    if (tests.hosts == 1) {
        if (m.wiring.known) m.host_bandwidth = std::max(m.host_bandwidth, m.wiring.gpu[0].rate);
        m.wiring = {};
        m.peer_bandwidth = rates.bus;
        m.peer_flow_cap = {};
        m.peer_latency = rates.hop;
        hop(LinkClass::nvlink) = hop(LinkClass::pci) = {};
        return c;
    }
    m.nics = std::max(1, m.nics);
    m.nic_line_rate = rates.bus / double(m.nics);
    m.host_bandwidth = std::max(m.host_bandwidth, m.nic_line_rate);
    for (PciePort& port : m.wiring.nic) port.rate = std::max(port.rate, m.nic_line_rate);
    c.latency = rates.hop;
    c.flow_cap = {};
    c.goodput = 1;
    c.profile.transport = {};
    c.profile.collective.included = {};
    hop(LinkClass::net) = {};
    return c;
}

}  // namespace gx::sim
