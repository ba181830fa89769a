// hardware_of: the cluster that conditions describe, as the simulator takes it.
#pragma once

#include <string>
#include <vector>

#include <gx/sim/hardware/machine.hpp>   // ClusterSpec
#include <tools/predict/conditions.hpp>  // Conditions
#include <tools/predict/stack.hpp>       // Stack, Calibration

namespace gx::tools::predict {

/// What joins the GPUs of a machine, and the bus bandwidth that an all-reduce has of it.
struct Inside {
    enum class Link : unsigned char { pcie, nvlink, nvswitch };
    Link link = Link::pcie;
    BytesPerSecond bus{};
};

/// A machine and network by name, and the spec of `machines` of them with `gpus` each.
struct Hardware {
    std::string machine{};
    Inside inside{};
    BytesPerSecond nic{};  ///< line rate of a machine's NICs together, as far as GPUs reach it
    double share = 1;      ///< of the goodput
    sim::Profile profile{};
    bool trees = true;  ///< NCCL 2.4 and newer
    sim::GpuSpec gpu{};
    const sim::ClusterSpec* measured = nullptr;  ///< whose machine and network spec() has

    /// Takes links and network of a measured cluster in place of those of the conditions. It stays
    /// where it is as long as this.
    void measure(const sim::ClusterSpec& cluster);

    /// Errors: gx::Error for more GPUs than a measured machine with wiring has.
    [[nodiscard]] sim::ClusterSpec spec(int machines, int gpus) const;
};

/// The cluster, without its name. What is assumed is added to `remarks`.
[[nodiscard]] Hardware hardware_of(const Conditions& c, const Stack& stack, const Calibration& k,
                                   std::vector<std::string>& remarks);

/// The known machine with these GPUs and NICs; else as "8 x V100-SXM2-16GB".
[[nodiscard]] std::string machine_name(const Conditions& c);

}  // namespace gx::tools::predict
