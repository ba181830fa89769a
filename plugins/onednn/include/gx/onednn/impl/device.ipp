// onednn::Device's members: each calls the Execution behind it.
#pragma once

#include <gx/onednn/detail/cpu_bf16.hpp>   // bf16_advice
#include <gx/onednn/detail/execution.hpp>  // Execution
#include <gx/onednn/device.hpp>            // the declarations

namespace gx::onednn {

GX_DECL Device::Device(const Graph& graph, DeviceOptions options, Tuning tuning)
    : execution_(std::make_unique<detail::Execution>(graph, options, tuning)),
      warning_(options.compute == ElementType::bf16 ? detail::bf16_advice(detail::cpu_bf16())
                                                    : std::string()) {}
GX_DECL Device::~Device() = default;

GX_DECL ForwardReport Device::forward(const Batch& batch, Mode mode) {
    return execution_->forward(batch, mode);
}
GX_DECL void Device::backward(float scale, std::span<float> gradients, GradientsReady ready) {
    execution_->backward(scale, gradients, ready);
}
GX_DECL std::span<const float> Device::parameters() const { return execution_->parameters(); }
GX_DECL std::span<const ParameterSlice> Device::slices() const { return execution_->slices(); }
GX_DECL void Device::update(FunctionRef<void(std::span<float>)> change) {
    execution_->update(change);
}
GX_DECL void Device::in_shares(FunctionRef<void(int, int)> f) { execution_->in_shares(f); }
GX_DECL std::span<float> Device::statistics() { return execution_->statistics(); }
GX_DECL void Device::to_canonical(std::span<const float> mine, std::span<float> canonical) const {
    execution_->to_canonical(mine, canonical);
}
GX_DECL void Device::from_canonical(std::span<const float> canonical, std::span<float> mine) const {
    execution_->from_canonical(canonical, mine);
}
GX_DECL std::optional<std::string> Device::first_non_finite() const {
    return execution_->first_non_finite();
}
GX_DECL const Counters& Device::counters() const { return execution_->counters(); }
GX_DECL std::int64_t Device::arena_floats() const { return execution_->arena_floats(); }
GX_DECL MemoryUse Device::memory() const { return execution_->memory(); }
GX_DECL std::string Device::kernels(int op) const { return execution_->kernels(op); }
GX_DECL std::vector<float> Device::logits() const { return execution_->logits(); }

}  // namespace gx::onednn
