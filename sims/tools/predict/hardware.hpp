// hardware_of: the cluster that conditions describe, as the simulator takes it.
#pragma once

#include <algorithm>  // max, min
#include <cstddef>    // size_t
#include <string>
#include <vector>

#include <gx/sim/hardware/machine.hpp>   // ClusterSpec
#include <tools/predict/conditions.hpp>  // Conditions
#include <tools/predict/stack.hpp>       // Stack, Calibration

namespace gx::tools::predict {

/// What lies between the GPUs that are added: by it, errors of predictions differ most.
enum class Between : unsigned char {
    links,   ///< of one machine
    rdma,    ///< a network whose cards read the other side's memory; to gx_predict, one that was
             ///< measured
    sockets  ///< a network over the kernel's TCP, whose share that clusters reach differs widely
};
inline constexpr std::size_t kinds_between = 3;
[[nodiscard]] Between between(const sim::ClusterSpec& cluster);

/// What joins the GPUs of a machine, and the bus bandwidth that an all-reduce has of it.
struct Inside {
    enum class Link : unsigned char { pcie, nvlink, nvswitch };
    Link link = Link::pcie;
    BytesPerSecond bus{};
    BytesPerSecond shared{};  ///< by all GPUs, of the host's memory; 0: peers copy directly

    /// Of an all-reduce over `gpus` of the machine.
    [[nodiscard]] BytesPerSecond bus_of(int gpus) const {
        if (shared.count == 0) return bus;
        return std::min(bus, BytesPerSecond{shared.count / std::max(1, gpus)});
    }
};

/// A machine and network by name, and the spec of `machines` of them with `gpus` each.
struct Hardware {
    std::string machine{};
    Inside inside{};
    BytesPerSecond nic{};  ///< line rate of a machine's NICs together, as far as GPUs reach it
    double share = 1;      ///< of the goodput
    sim::Profile profile{};
    bool trees = true;     ///< NCCL 2.4 and newer
    bool sockets = false;  ///< the network is used over the kernel's TCP
    sim::GpuSpec gpu{};
    const sim::ClusterSpec* measured = nullptr;  ///< whose machine and network spec() has

    /// Takes links and network of a measured cluster in place of those of the conditions. It stays
    /// where it is as long as this.
    void measure(const sim::ClusterSpec& cluster);

    [[nodiscard]] Between between(int machines) const {
        if (machines == 1) return Between::links;
        return sockets ? Between::sockets : Between::rdma;
    }
    /// Errors: gx::Error for more GPUs than a measured machine with wiring has.
    [[nodiscard]] sim::ClusterSpec spec(int machines, int gpus) const;
};

/// The cluster, without its name. What is assumed is added to `remarks`.
[[nodiscard]] Hardware hardware_of(const Conditions& c, const Stack& stack, const Calibration& k,
                                   std::vector<std::string>& remarks);

/// The known machine with these GPUs and NICs; else as "8 x V100-SXM2-16GB".
[[nodiscard]] std::string machine_name(const Conditions& c);

}  // namespace gx::tools::predict
