// onednn::Device: runs a graph on CPU cores with oneDNN's convolutions, planned once.
#pragma once

#include <cstdint>   // int64_t
#include <memory>    // unique_ptr
#include <optional>  // first_non_finite
#include <span>      // flat vectors
#include <string>    // names of layers
#include <vector>    // logits

#include <gx/core/decl.hpp>      // GX_HEADER_ONLY
#include <gx/core/device.hpp>    // explain_device
#include <gx/core/element.hpp>   // StandardElement
#include <gx/model/graph.hpp>    // Graph
#include <gx/onednn/tuning.hpp>  // Tuning, Counters, MemoryUse

namespace gx::onednn {

namespace detail {
class Execution;  // gx/onednn/detail/execution.hpp: the plan, its kernels and its memory
}

/// Models gx::Device. The batch is divided into lanes, a lane into chunks of images that fit a
/// core's cache; a chunk goes through all layers between two batch norms at once.
///
/// The images of a batch are not copied: they must stay until backward has returned. Labels are,
/// and 8-bit pixels become floats on the calling thread.
///
/// DeviceOptions::compute = bf16: activations and their gradients are bf16, each rounded once when
/// it is stored; weights and biases are read from copies in bf16, made anew by update().
/// Parameters, their gradients, statistics and all sums are fp32 or more. Numbers below 2^-126
/// become 0.
///
/// DeviceOptions::compute = fp16 is emulated by the kernels of fp32, on any CPU: numbers lie in
/// memory as fp32 and are rounded to fp16, with its subnormals and infinities, where bf16 rounds.
/// Products of them are exact in fp32, sums of these are rounded to nearest. Slower than fp32.
///
/// Errors: a batch that does not fit, or a label out of range, breaks the contract; a graph that
///         the device cannot run, a library that fails, or bf16 on a CPU without AVX512-BF16 or
///         AMX, is a gx::Error in the constructor.
/// Order:  sums go over images of a chunk, then chunks, then lanes. Equal inputs give equal bits
///         for equal Tuning, on one kind of CPU, however many threads run.
/// Cost:   the first batch of each count plans; after that a step asks for no memory of its own.
class Device {
public:
    template <class E>
    static constexpr bool computes = StandardElement<E>;
    static constexpr bool takes_pixels = true;  // normalised on the host when forward() begins
    static constexpr bool takes_second_labels = true;
    static constexpr bool concurrent_passes = true;

    Device(const Graph& graph, DeviceOptions options, Tuning tuning = {});
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    ForwardReport forward(const Batch& batch, Mode mode);
    void backward(float scale, std::span<float> gradients, GradientsReady ready);

    [[nodiscard]] std::span<const float> parameters() const;
    [[nodiscard]] std::span<const ParameterSlice> slices() const;
    void update(FunctionRef<void(std::span<float>)> change);
    void in_shares(FunctionRef<void(int share, int shares)> f);
    [[nodiscard]] std::span<float> statistics();

    void to_canonical(std::span<const float> mine, std::span<float> canonical) const;
    void from_canonical(std::span<const float> canonical, std::span<float> mine) const;
    [[nodiscard]] std::optional<std::string> first_non_finite() const;
    /// That this CPU computes in fp32 faster than in bf16, which was asked for.
    [[nodiscard]] const std::string& warning() const { return warning_; }

    // ---- beyond the concept -------------------------------------------------------------
    [[nodiscard]] const Counters& counters() const;
    /// Floats of activations and their gradients, of all images together.
    [[nodiscard]] std::int64_t arena_floats() const;
    [[nodiscard]] MemoryUse memory() const;
    /// The kernels that oneDNN chose for a convolution, as in "forward: jit:avx512_core, ...".
    [[nodiscard]] std::string kernels(int op) const;
    /// The logits of the last forward, until backward. Shapes: (count, classes), row-major.
    [[nodiscard]] std::vector<float> logits() const;

private:
    std::unique_ptr<detail::Execution> execution_;
    std::string warning_;
};

static_assert(explain_device<Device>());

}  // namespace gx::onednn

#if defined(GX_HEADER_ONLY)
#include <gx/onednn/impl/device.ipp>
#endif
