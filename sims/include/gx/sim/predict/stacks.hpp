// Stack: what a training framework adds to computation and wire, as named data with sources.
#pragma once

#include <array>        // all stacks
#include <string_view>  // names

#include <gx/sim/predict/conditions.hpp>  // Conditions

namespace gx::sim::predict {

/// How gradients travel.
enum class Way : unsigned char {
    fused,          ///< ring or tree over what is ready whenever the last one ends (Horovod)
    buckets,        ///< ring or tree, bucket after bucket, each when it is whole (DDP)
    after_backward, ///< ring or tree over all, when backward ends
    late,           ///< one step late, beside the whole next step (double buffering)
    local_servers,  ///< sums on the CPU of one machine
    servers,        ///< parameter servers over the network, after a sum inside each machine
    key_value       ///< MXNet's kvstore: each tensor has an owner, servers between machines
};

/// A framework's costs beside those of the wire. mb_ms is that on a V100 of 900 GB/s: copies,
/// casts and updates run at the speed of memory, so a GPU pays 900 GB/s over its own times as much,
/// at most half as much again. Hosts came with their GPUs and grew faster more slowly: step_ms and
/// machines_ms fall with the root of that. The wire goes on while machines are waited for.
///
///     step = computation + step_ms + mb_ms * gradient / 100 MB
///          + jitter * E[max of `machines` normal deviates] * computation
///          + max(machines_ms, exposed communication + interference * hidden communication)
struct Stack {
    std::string_view name, source;
    Way way = Way::buckets;
    double step_ms = 0;       ///< hooks and negotiation, on the host
    double mb_ms = 0;         ///< packing, and the update, for 100 MB of fp32 gradient
    double machines_ms = 0;   ///< negotiation and waiting for the last machine
    double jitter = 0;        ///< deviation of a machine's step, as a share of it
    double interference = 0;  ///< of communication that runs under backward
    double bucket_mb = 25;    ///< of fp32 gradient, where the case says none
    double ethernet_gbps = 0; ///< of a NIC of 10 Gb/s or less without RDMA; 0: as its profile
};

/// A stack that does all as another one, but how gradients travel.
[[nodiscard]] constexpr Stack variant(Stack of, std::string_view name, Way way) {
    of.name = name;
    of.way = way;
    return of;
}

/// All that was fitted on published results, and what was not (`source`). Nothing is of one case.
/// `gx_predict --score FILE --fit` finds these constants again (fit.hpp says how).
struct Calibration {
    Stack tensorflow{
        .name = "tensorflow-horovod", .source = "fitted: TensorFlow + Horovod cases",
        .way = Way::fused, .step_ms = 6.3, .mb_ms = 6.6, .machines_ms = 11.9, .jitter = 0.0269,
        .interference = 0.19};
    Stack mxnet{
        .name = "mxnet-horovod", .source = "fitted: MXNet containers and MLPerf cases",
        .way = Way::buckets, .mb_ms = 4.5, .machines_ms = 5, .jitter = 0.0263,
        .interference = 0.31, .bucket_mb = 128};
    Stack pytorch{
        .name = "pytorch-ddp", .source = "fitted: PyTorch DDP cases",
        .way = Way::buckets, .step_ms = 6.9, .machines_ms = 1.3, .jitter = 0.01,
        .interference = 0.13};
    Stack oneflow{
        .name = "oneflow", .source = "fitted: OneFlow cases of DLPerf",
        .way = Way::buckets, .step_ms = 0.9, .mb_ms = 2.3, .machines_ms = 3.8,
        .jitter = 0.0019, .interference = 0.2};
    /// Over 10 GbE a step took 1.375 s more than over FDR for 198 MB a NIC: 1.15 Gb/s. A ring blind
    /// to machines, crossing each NIC eight times, would do that too; the source does not say.
    Stack chainer{
        .name = "chainermn", .source = "fitted: ChainerMN 1.3, pure_nccl, on MN-1",
        .way = Way::after_backward, .step_ms = 6.6, .ethernet_gbps = 1.15};
    Stack local_servers{
        .name = "tensorflow-local-servers", .source = "fitted: TensorFlow's benchmarks, 2017",
        .way = Way::local_servers, .step_ms = 3.4, .jitter = 0.0213};
    Stack servers{
        .name = "tensorflow-parameter-servers", .source = "fitted: distributed TensorFlow, 2017",
        .way = Way::servers, .step_ms = 4.7, .interference = 0.4};
    Stack key_value{
        .name = "mxnet-kvstore", .source = "fitted: MXNet on 1 to 256 K80",
        .way = Way::key_value, .jitter = 0.0188, .interference = 0.1};

    double pair_loss = 0.03;         ///< a K80's other die takes its share of 300 W: all K80 cases
    double clipping_mb_ms = 3.8;     ///< the norm of all gradients before the first update
    double tcp_share = 0.875;        ///< of goodput, that NCCL over the kernel's TCP reached
    double tcp_cap_gbps = 41;        ///< NCCL 2.3 on a 100 Gb/s NIC (nccl-p3dn-tcp)
    double rdma_share = 0.95;        ///< of goodput: "12 GB/s per EDR NIC, approx" (nccl-edr)
    double host_path_gbps = 48;      ///< GPU to NIC through the CPU, PCIe 3: QPI's 6 GB/s (NCCL)
    double host_path4_gbps = 72;     ///< PCIe 4: UPI's 9 GB/s (NCCL 2.10)
    double omni_path_share = 0.84;
    double grpc_share = 0.65;        ///< of its NIC, that a TensorFlow server fills: it copies
    double server_window = 0.5;      ///< share of computation that servers' traffic hides under
    double peer_copy_share = 0.64;   ///< of PCIe, that copies between K80 dies reach
    double micro_step_s = 0.15;      ///< of a full V100 of 16 GB, that reduces every micro-batch
    double micro_exposed = 0.54;     ///< of the reductions of such steps
    double decoded_images_s = 6000;  ///< by the CPUs of a machine, TensorFlow (aws-repro)
    double cpu_sum_gbps = 120;       ///< a CPU adds gradients: memory of two sockets, three passes
};
inline constexpr Calibration calibrated{};

/// The stack that conditions name; of a framework that is not known, PyTorch's.
[[nodiscard]] inline Stack find_stack(const Conditions& c, const Calibration& k) {
    const bool tensorflow = has(c.framework, "tensorflow") || has(c.framework, "keras") ||
                            c.framework.starts_with("tf");
    const bool torch = has(c.framework, "torch");
    const bool servers = has(c.collective, "parameter server");
    if (has(c.option, "double buffering"))
        return variant(k.chainer, "chainermn-double-buffered", Way::late);
    if (has(c.framework, "chainer")) return k.chainer;
    if (has(c.framework, "mxnet") &&
        (servers || has(c.collective, "kvstore") || has(c.collective, "dist_")))
        return k.key_value;
    if (has(c.collective, "distributed_replicated") || has(c.collective, "on the workers"))
        return k.servers;
    if (servers) return has(c.transport, "grpc") ? k.servers : k.local_servers;
    if (tensorflow && !has(c.framework, "horovod") &&
        (has(c.collective, "replicated") || has(c.framework, "2017")))
        return k.local_servers;
    if (c.accumulates)
        return tensorflow ? variant(k.tensorflow, "tensorflow-accumulating", Way::after_backward)
                          : variant(k.pytorch, "pytorch-accumulating", Way::after_backward);
    if (tensorflow) return k.tensorflow;
    if (has(c.framework, "mxnet") || has(c.framework, "gluon")) return k.mxnet;
    if (has(c.framework, "oneflow")) return k.oneflow;
    if (torch && has(c.framework, "horovod"))
        return variant(k.pytorch, "pytorch-horovod", Way::fused);
    if (has(c.framework, "paddle") || has(c.framework, "horovod")) return k.tensorflow;
    // BERT as NVIDIA's container trains it reduces one flat gradient after backward.
    // Source: DeepLearningExamples PyTorch/LanguageModeling/BERT, allreduce_post_accumulation.
    if (has(c.framework, "container") && has(c.model, "bert"))
        return variant(k.pytorch, "pytorch-flat", Way::after_backward);
    return k.pytorch;
}

}  // namespace gx::sim::predict
