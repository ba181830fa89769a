// Stack: what a training framework adds to computation and wire, as named data with sources.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gx/sim/hardware/gpu.hpp>       // GpuSpec
#include <tools/predict/conditions.hpp>  // Conditions

namespace gx::tools::predict {

/// How gradients are exchanged, and what that overlaps with.
enum class Scheme : unsigned char {
    fused,           ///< ring or tree over what is ready whenever the last one ends (Horovod)
    buckets,         ///< ring or tree, bucket after bucket, each when it is whole (DDP)
    after_backward,  ///< ring or tree over all, when backward ends
    late,            ///< one step late, beside the whole next step (double buffering)
    local_servers,   ///< sums on the CPU of one machine
    servers,         ///< parameter servers over the network, after a sum inside each machine
    key_value        ///< MXNet's kvstore: each tensor has an owner, servers between machines
};

/// A framework's costs beside those of the wire. mb_ms is that on a V100 of 900 GB/s: copies,
/// casts and updates run at the speed of memory, so a GPU pays 900 GB/s over its own times as much,
/// at most half as much again. Hosts improved less than GPUs: step_ms and machines_ms scale with
/// the square root of that. The wire goes on while machines are waited for.
///
///     step = computation + step_ms + mb_ms * gradient / 100 MB
///          + jitter * E[max of `machines` normal deviates] * computation
///          + max(machines_ms, exposed communication + interference * hidden communication)
struct Stack {
    std::string name{}, source{};
    Scheme scheme = Scheme::buckets;
    double step_ms = 0;        ///< hooks and negotiation, on the host
    double mb_ms = 0;          ///< packing, and the update, for 100 MB of fp32 gradient
    double machines_ms = 0;    ///< negotiation and waiting for the last machine
    double jitter = 0;         ///< deviation of a machine's step, as a share of it
    double interference = 0;   ///< of communication that runs under backward
    double bucket_mb = 25;     ///< of fp32 gradient, where the case says none
    double ethernet_gbps = 0;  ///< of a NIC of 10 Gb/s or less without RDMA; 0: as its profile
    double fusion_mb = 64;     ///< of what a cycle of Horovod reduces at once, at most
    double cycle_ms = 5;       ///< of Horovod
    double traffic = 1;        ///< bytes on the wire, of those of an all-reduce
    double modules = 0;        ///< buckets at most, where each module is one
    bool known = true;         ///< false: how gradients are exchanged is not known, or not timed
    bool other = false;        ///< the mechanism of the framework is not like `scheme`
};

/// All constants of the model: those with a prior, which a fit on published results may move, and
/// those read in a source.
/// None is of one case. data/stacks.json says what each means and where it is from.
struct Calibration {
    Stack tensorflow{}, mxnet{}, pytorch{}, oneflow{}, chainer{}, local_servers{}, servers{},
        key_value{};
    double pair_loss = 0, clipping_mb_ms = 0, tcp_share = 0, omni_path_share = 0, grpc_share = 0,
           server_window = 0, peer_copy_share = 0, micro_exposed = 0, tcp_flow_gbps = 0,
           rdma_share = 0, host_path_gbps = 0, host_path4_gbps = 0, host_copies_gbps = 0,
           host_mpi_gbps = 0, micro_step_s = 0, decoded_images_s = 0, cpu_sum_gbps = 0;
};

/// The constants in force, of data/stacks.json: those with a prior are at it, since no fit predicts
/// publications that are left out of it better.
[[nodiscard]] const Calibration& calibrated();

/// A constant that a fit may move: a cost of a stack, or a member of Calibration itself.
struct Knob {
    std::string name{};
    double expected = 0;                   ///< its prior: before any result is seen
    double spread = 0;                     ///< how far from the prior it may well be
    Stack Calibration::* stack = nullptr;  ///< or null
    double Stack::* cost = nullptr;        ///< of `stack`
    double Calibration::* own = nullptr;   ///< where `stack` is null; a share, if expected < 1

    [[nodiscard]] double& in(Calibration& k) const { return stack ? k.*stack.*cost : k.*own; }
};

/// Every constant that a fit may move, in the order of data/stacks.json. Those of a stack with no
/// scored result of several machines (ChainerMN's), and those read in a source, are not among them.
[[nodiscard]] const std::vector<Knob>& knobs();

/// The constants in force with every knob at its prior: nothing fitted.
[[nodiscard]] Calibration priors();

/// The stack that conditions name. Frameworks whose mechanism is known and whose costs are not
/// (Megatron-LM, DeepSpeed, FSDP, ...) pay PyTorch's; one that is not known is taken for PyTorch
/// and is not `known`. Nor is one whose row is not `timed`.
[[nodiscard]] Stack find_stack(const Conditions& c, const Calibration& k);

/// Stacks in force whose gradients go by rings or trees and that have costs, as
/// "pytorch-ddp"; "none" has no costs.
/// Errors: gx::Error with the nearest name.
[[nodiscard]] Stack stack_named(std::string_view name);

/// How a GPU's costs compare with those of a V100: of memory traffic, and of its host.
struct GpuScale {
    double memory = 1, host = 1;
};
[[nodiscard]] GpuScale gpu_scale(const sim::GpuSpec& gpu);

/// The expected maximum of n standard normal deviates; between powers of two, a straight line.
/// Source: order statistics of the normal distribution (Harter 1961, for n up to 400).
[[nodiscard]] double expected_max(double n);

}  // namespace gx::tools::predict
