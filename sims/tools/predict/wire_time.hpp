// WireTime: how long gradients are on the wire, from the simulated network.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <tools/predict/hardware.hpp>  // Hardware

namespace gx::tools::predict {

/// Time of a message or collective by its size: milliseconds and megabytes.
struct Line {
    double latency_ms = 0, ms_per_mb = 0;
    [[nodiscard]] double at(double mb) const { return latency_ms + ms_per_mb * mb; }
};

/// The time of an all-reduce whose library takes, call by call, the faster of two algorithms.
struct FasterLine {
    Line ring{}, tree{};
    bool trees = false;
    [[nodiscard]] double at(double mb) const;
    [[nodiscard]] bool is_tree(double mb) const { return trees && tree.at(mb) < ring.at(mb); }
};

/// GPUs that reduce together.
struct Group {
    int machines = 1, gpus = 1;  ///< of each machine
    [[nodiscard]] int ranks() const { return machines * gpus; }
};

/// Simulates each question once. Rings run through the fluid network message by message, collapsed
/// where that gives the same nanosecond; parameter servers and kvstores are flows on NICs and PCIe.
/// Trees are NCCL's own estimate (nccl_all_reduce_time): its pipelined trees are not simulated.
/// Cost:   at most 4,096 ranks of a ring, or `most_flows` flows, for a question.
class WireTime {
public:
    /// All-reduces of any size; `algorithm` says which is faster for `mb`.
    [[nodiscard]] FasterLine all_reduce(const Hardware& h, Group g, double mb,
                                        std::string& algorithm);

    /// Every machine sends `mb`, cut over `servers` on the first machines, and fetches as much.
    /// Of very many, as many workers for each server are simulated.
    [[nodiscard]] double servers(const Hardware& h, int machines, int servers, double mb,
                                 double server_gbps);

    /// Tensors of `mb` in all, the largest a share `largest`, summed at their owners among the
    /// GPUs of one machine and sent back. Owners of all but the largest share alike.
    [[nodiscard]] double key_value(const Hardware& h, int gpus, double mb, double largest,
                                   double share);

    /// Messages that went through the simulated network so far.
    [[nodiscard]] std::uint64_t simulated() const { return simulated_; }

    static constexpr int most_ranks = 4096, most_flows = 1 << 14;

private:
    [[nodiscard]] Line long_ring(const Hardware& h, Group g);
    [[nodiscard]] Line ring(const Hardware& h, Group g);
    [[nodiscard]] Line tree(const Hardware& h, Group g);

    std::map<std::string, Line> lines_{};
    std::map<std::string, double> times_{};
    std::uint64_t simulated_ = 0;
};

}  // namespace gx::tools::predict
