#include <tools/predict/step_model.hpp>

#include <algorithm>  // max, min
#include <cmath>      // sqrt

#include <fmt/core.h>  // format

#include <gx/core/error.hpp>      // Error
#include <tools/common/text.hpp>  // lower, has, states

namespace gx::tools::predict {

namespace {

/// Whether all ranks reduce together, so that a ring's bytes are the least.
bool is_collective(Scheme s) {
    return s != Scheme::local_servers && s != Scheme::servers && s != Scheme::key_value;
}

}  // namespace

StepModel::StepModel(const Conditions& c, const Stack& stack, const Hardware& h,
                     const ModelWork& work, const Calibration& k, WireTime& wire)
    : c_(c), stack_(stack), h_(h), work_(work), k_(k), wire_(wire) {
    const GpuScale scale = gpu_scale(c.gpu);
    memory_ = scale.memory;
    host_ = scale.host;
    mb_ = c.gradient_mb_fp32 * c.wire_bytes / 4 * stack.traffic;
    pair_ = has(lower(c.gpu.name.view()), "k80") ? k.pair_loss : 0;
    if (stack.scheme == Scheme::buckets && mb_ > most_buckets * bucket())
        throw Error(
            fmt::format("field 'conditions.bucket_mb': a gradient of {:.6g} MB in buckets "
                        "of {:.6g} MB is more than {:.0f} buckets; expected at least "
                        "{:.6g} MB",
                        mb_, bucket(), most_buckets, mb_ / most_buckets));
}

Step StepModel::of(Group g, double compute_ms, double batch) {
    Step s{.total_ms = compute_ms, .floor_ms = compute_ms};
    if (g.ranks() > 1) {
        const double wait = g.machines > 1 ? host_ * stack_.machines_ms : 0;
        s.exposed_ms = exposed(g, compute_ms);
        s.total_ms += overhead(g, compute_ms) + std::max(wait, s.exposed_ms);
        s.floor_ms = std::max(compute_ms, wire_ms(g));
        if (is_collective(stack_.scheme)) s.total_ms = std::max(s.total_ms, s.floor_ms);
    }
    if (decodes_on_cpu()) s.total_ms = fed(s.total_ms, g.gpus * batch);
    return s;
}

double StepModel::compute_in(Group g, double total_ms, double batch) {
    double low = 0.1 * total_ms, high = total_ms;
    for (int i = 0; i < 40; ++i) {
        const double middle = 0.5 * (low + high);
        (of(g, middle, batch).total_ms < total_ms ? low : high) = middle;
    }
    return high;
}

double StepModel::wire_ms(Group g) const {
    if (g.ranks() < 2) return 0;
    const double n = g.ranks();
    const double bus = h_.inside.bus_of(g.gpus).count;
    const double rate = g.machines > 1 ? std::min(bus, h_.nic.count) : bus;
    return 2 * (n - 1) / n * mb_ * 1e9 / rate;
}

bool StepModel::decodes_on_cpu() const {
    return states(c_.framework, "tensorflow") && states(c_.data, "imagenet on");
}

/// A step whose input may be late: the fourth-power mean lies between the two times' maximum
/// and, where they are alike, what jitter of both costs.
double StepModel::fed(double total_ms, double images) const {
    const double feed = images / k_.decoded_images_s * 1e3;
    const double t2 = total_ms * total_ms, f2 = feed * feed;
    return std::sqrt(std::sqrt(t2 * t2 + f2 * f2));
}

double StepModel::overhead(Group g, double compute_ms) const {
    // a sharded network's copies are of a rank's shard: none
    double ms = stack_.traffic > 1 ? 0 : stack_.mb_ms * c_.gradient_mb_fp32 / 100;
    if (states(c_.framework, "clipping")) ms += k_.clipping_mb_ms * c_.gradient_mb_fp32 / 100;
    const bool inside = stack_.scheme == Scheme::local_servers ||
                        (stack_.scheme == Scheme::servers && g.machines == 1);
    const double jitter = inside ? k_.local_servers.jitter * expected_max(g.ranks())
                                 : stack_.jitter * expected_max(g.machines);
    return host_ * stack_.step_ms + memory_ * ms + (pair_ + jitter) * compute_ms;
}

double StepModel::hidden_in(double wire_ms, double window_ms) const {
    return std::max(0.0, wire_ms - window_ms) + stack_.interference * std::min(wire_ms, window_ms);
}

double StepModel::exposed(Group g, double compute_ms) {
    switch (stack_.scheme) {
        case Scheme::local_servers:
        case Scheme::servers:  // a sum inside each machine, then one over the network
            return g.machines == 1
                       ? exposed_local(g, compute_ms)
                       : std::max(exposed_local(g, compute_ms), exposed_servers(g, compute_ms));
        case Scheme::key_value: return exposed_keys(g, compute_ms);
        default: break;
    }
    const FasterLine line = this->line(g);
    const double backward = compute_ms * (1 - work_.forward_share);
    if (stack_.scheme == Scheme::late) return hidden_in(line.at(mb_), compute_ms);
    if (stack_.scheme == Scheme::after_backward) return exposed_after(line, compute_ms);
    return stack_.scheme == Scheme::fused ? fused(line, backward) : bucketed(line, backward);
}

FasterLine StepModel::line(Group g) {
    for (const auto& [group, line] : lines_)
        if (group.machines == g.machines && group.gpus == g.gpus) {
            algorithm_ = line.is_tree(message_mb()) ? "tree" : "ring";
            return line;
        }
    lines_.emplace_back(g, wire_.all_reduce(h_, g, message_mb(), algorithm_));
    return lines_.back().second;
}

/// What one all-reduce sums at most.
double StepModel::message_mb() const {
    if (stack_.scheme == Scheme::fused) return std::min(stack_.fusion_mb, mb_);
    return stack_.scheme == Scheme::buckets ? std::min(bucket(), mb_) : mb_;
}

double StepModel::bucket() const {
    double mb = c_.bucket_mb > 0 ? c_.bucket_mb : stack_.bucket_mb;
    if (stack_.modules > 0 && c_.bucket_mb == 0)
        mb = std::max(mb, stack_.traffic * c_.gradient_mb_fp32 / stack_.modules);
    return mb * c_.wire_bytes / 4;
}

/// Before 2020 (V100) accumulation reduced after every micro-batch, under its backward.
double StepModel::exposed_after(const FasterLine& line, double compute_ms) const {
    const double all = line.at(mb_);
    const bool every =
        c_.accumulates && h_.gpu.tf32.count == 0 && !states(c_.framework, "tensorflow");
    if (!every) return all;
    const double full = k_.micro_step_s * 1e3 * (h_.gpu.memory / Bytes{16'000'000'000});
    return std::max(1.0, compute_ms / full) * k_.micro_exposed * all;
}

/// Horovod: each cycle reduces what is ready, up to the fusion buffer.
double StepModel::fused(const FasterLine& line, double backward) const {
    constexpr double least_mb = 1;
    const double cycle = stack_.cycle_ms;
    double t = cycle, done = 0, busy = 0;
    while (done < mb_ - 1e-9) {
        const double ready = t >= backward ? mb_ : work_.bytes_at(t / backward) * mb_;
        if (ready - done < std::min(least_mb, mb_) && t < backward) {
            t += cycle;
            const double whole = work_.backward_at((done + std::min(least_mb, mb_)) / mb_);
            const double idle = (whole * backward - t) / cycle;  // cycles that find nothing
            if (idle > 1e4) t += cycle * std::floor(idle - 1);
            continue;
        }
        const double part = std::min(stack_.fusion_mb, ready - done), takes = line.at(part);
        t += takes, busy += takes, done += part;
    }
    return with_interference(t - backward, busy);
}

/// Buckets in the order of backward, each when it is whole.
double StepModel::bucketed(const FasterLine& line, double backward) const {
    double t = 0, done = 0, busy = 0;
    while (done < mb_ - 1e-9) {
        const double part = std::min(bucket(), mb_ - done), takes = line.at(part);
        t = std::max(t, work_.backward_at((done + part) / mb_) * backward);
        t += takes, busy += takes, done += part;
    }
    return with_interference(t - backward, busy);
}

double StepModel::with_interference(double late, double busy) const {
    const double exposed = std::max(0.0, late);
    return exposed + stack_.interference * std::max(0.0, busy - exposed);
}

/// Each GPU sends and fetches all over its half of a PCIe, an x16 where none was measured; the CPU
/// sums. Where replicas may reduce by NCCL instead, the faster way is taken, as benchmarks choose
/// it for each network.
double StepModel::exposed_local(Group g, double compute_ms) {
    const double measured = h_.measured != nullptr ? h_.measured->machine.host_bandwidth.count : 0;
    const double pcie_mb_ms = measured > 0 ? measured * 1e-9 : 12;
    const double link = 2 * mb_ * std::min(2, g.gpus) / 2 / (pcie_mb_ms / 2);
    double wire = link + g.gpus * mb_ / (k_.cpu_sum_gbps / 8);
    if (states(c_.collective, "nccl") || states(c_.collective, "replicated"))
        wire = std::min(wire, wire_.all_reduce(h_, {1, g.gpus}, mb_, algorithm_).at(mb_));
    const double window = 0.6 * compute_ms;
    return std::max(0.0, wire - window) + k_.local_servers.interference * std::min(wire, window);
}

double StepModel::exposed_servers(Group g, double compute_ms) {
    int count = g.machines;
    if (c_.servers.is_number_integer()) count = c_.servers.get<int>();
    if (c_.servers.is_object()) {
        const auto at = c_.servers.find(std::to_string(g.ranks()));
        if (at != c_.servers.end() && at->is_number_integer()) count = at->get<int>();
    }
    count = std::clamp(count, 1, 4096);
    const double wire =
        wire_.servers(h_, g.machines, count, mb_, k_.grpc_share * h_.nic.count * 8e-9);
    return hidden_in(wire, k_.server_window * compute_ms);
}

/// A tensor of most of the bytes is one key: its owner's link carries all of it, unhidden.
double StepModel::exposed_keys(Group g, double compute_ms) {
    const double largest = work_.largest_tensor;
    double wire = wire_.key_value(h_, g.gpus, mb_, largest, k_.peer_copy_share);
    if (g.machines > 1) {
        wire += mb_ * 1e9 / h_.nic.count;
        if (const sim::ClusterSpec* const c = h_.measured)  // there and back
            wire += 2e3 * seconds(c->latency + h_.profile.transport.latency);
    }
    return largest > 0.5 ? wire : hidden_in(wire, 0.5 * compute_ms);
}

}  // namespace gx::tools::predict
