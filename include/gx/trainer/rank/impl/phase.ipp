// RankTraining: from one phase to the next, with another batch and image size.
#pragma once

#include <cstdint>  // uint64_t
#include <string>   // names
#include <vector>   // parameters

#include <gx/trainer/rank/evaluation.hpp>  // layout_hash
#include <gx/trainer/rank/training.hpp>    // RankTraining

namespace gx::detail::trainer {

/// Errors, on the first rank of a process: gx::Error naming the phase that a device with a memory
/// of a known size can't hold.
GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::expect_phases_fit() {
    if constexpr (requires { Device::expect_fits(run_.graph(), device_options(), rank_); }) {
        if (run_.phases.size() == 1 || !fills_record()) return;
        const int first = phase_;
        for (phase_ = 0; phase_ < int(run_.phases.size()); ++phase_) {
            try {
                Device::expect_fits(phase().graph, device_options(), rank_);
            } catch (const Error& e) {
                throw Error(phase_name(o_.phases, std::size_t(phase_)) + ": " + e.what());
            }
        }
        phase_ = first;
    }
}

/// Between two epochs. The weights, statistics, optimizer state, gradients in flight and the
/// reducer's state stay as they are, to the bit; device and loaders are new.
GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::begin_phase(int next) {
    const std::vector<float> parameters = state().canonical(device_->parameters());
    const std::vector<float> statistics = get(queue(), device_->statistics());
    const std::uint64_t layout = layout_hash(*device_, run_.graph(), memory());
    if constexpr (repeats_steps) rank_.forget_repeated();
    loader_.reset();
    test_loader_.reset();
    device_.reset();
    phase_ = next;
    loader_.emplace(data_of<L>(run_.data.train), share(true));
    loader_->begin_epoch(phase().first_epoch);  // decodes while the device is planned
    device_ = rank_.make_device(phase().graph, device_options());
    keep_warning();
    if (o_.evaluate) test_loader_.emplace(run_.data.test, share(false));
    if (device_->parameters().size() != elements_ ||
        layout_hash(*device_, run_.graph(), memory()) != layout)
        throw_other_layout(rank_.rank(), phase_, type_name<Device>());
    expect_images();
    state().load(parameters);
    put(queue(), statistics, device_->statistics());
}

GX_RANK_TRAINING
GX_COLD void GX_OF_RANK_TRAINING::expect_images() {
    if (loader_->shape() != phase().graph.input)
        throw_other_images(rank_.rank(), phase_, phase().graph.input, loader_->shape(),
                           type_name<L>());
}

}  // namespace gx::detail::trainer
