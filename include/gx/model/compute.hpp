// Compute<E>: the element in which a device computes, and which tensors are in it.
#pragma once

#include <concepts>  // same_as

#include <gx/core/element.hpp>  // StandardElement, ElementType, tf32
#include <gx/model/graph.hpp>   // ParameterRole

namespace gx {

/// What a device may compute in.
template <class E>
concept ComputeElement = StandardElement<E> || std::same_as<E, tf32>;

namespace detail::compute {
template <class E>
consteval bool explain_element() {
    static_assert(ComputeElement<E>,
                  "gx: a Device computes in fp32, tf32, fp16 or bf16, and this Compute names "
                  "another type. Fix: name one of them, as in 'Compute<gx::bf16>'.");
    return true;
}
}  // namespace detail::compute

/// The element in which tensors of Compute<E> are stored.
template <ComputeElement E>
inline constexpr ElementType stored_element = [] {
    if constexpr (StandardElement<E>) return element_type<E>;
    else return ElementType::fp32;
}();

/// Mixed-precision training in E: a policy of the Trainer. Compute<fp32> is the default.
///
///     Trainer<ResNet50, Ring<fp16>, Warmup<Poly<2>>, Compute<bf16>>
///
///     in E      images, activations, logits; the gradients of all these
///               the working copy of weights and biases, which products read
///               gradients of weights and biases as the device computes them; fp32 where its
///               kernels sum in fp32 anyway (onednn::Device)
///     in fp32   parameters(): the master weights, which the optimizer changes; its state
///     or more   scale and shift of batch norms, and their gradients
///               batch-norm statistics, means and variances, and the sums they are made of
///               softmax, the loss, and its gradient until it is stored as that of the logits
///               sums inside every operation, until its result is stored
///
/// A value in E is rounded once, to nearest, ties to even, when an operation stores it. A gradient
/// that several operations add to is rounded after each. update() changes the master weights, then
/// the working copy is rounded from them anew: updates far below the resolution of E add up.
/// Weights that are exchanged, averaged, hashed and saved are the master weights.
///
/// In tf32 all tensors stay fp32, and the products of convolutions and linear layers, forward and
/// backward, read their operands rounded by tf32::round(); sums of products are fp32's, and a bias
/// is added as it is. On a GPU they are computed in fp32 where cuDNN has no tensor cores for them.
///
/// A gradient is scaled before it is first rounded, so a loss scale lifts every tensor in E above
/// the underflow of fp16: Compute<fp16> makes DynamicLossScale the default, as an fp16 wire does.
/// Only ranks that update apart (LocalSgd) have StaticLossScale then, of factor 1: set it.
/// An activation that overflows makes the loss infinite or NaN, which ends the run.
///
/// Device: one with `computes<E>` (gx/core/device.hpp). Another E is an error of the compiler.
/// World:  a simulated cluster is timed by ClusterOptions::compute, which must be
///         Precision::mixed where E is fp16 or bf16, and Precision::tf32 where it is tf32.
/// Cost:   fp16 and bf16 have half the bytes of fp32; the working copy adds 2 bytes a parameter.
///         tf32 costs no memory.
/// Source: Micikevicius et al. 2018, arXiv:1710.03740; Kalamkar et al. 2019, arXiv:1905.12322.
template <class E>
struct Compute {
    static_assert(detail::compute::explain_element<E>());
    using compute_type = E;
};

namespace detail::compute {
template <class C>
concept NamesItsElement = ComputeElement<typename C::compute_type>;
}  // namespace detail::compute

template <class C>
consteval bool explain_compute() {
    static_assert(detail::compute::NamesItsElement<C>,
                  "gx: not a Compute: its 'compute_type' is not fp32, tf32, fp16 or bf16. "
                  "Fix: use gx::Compute<...> of one of them.");
    return true;
}

/// Whether a parameter has a working copy in E, and its gradient is in E.
[[nodiscard]] constexpr bool in_compute_type(ParameterRole role) {
    return role == ParameterRole::weight || role == ParameterRole::bias;
}

}  // namespace gx
