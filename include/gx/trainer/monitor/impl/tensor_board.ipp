// Bodies of tensor_board.hpp.
#pragma once

#include <unistd.h>  // gethostname, getpid

#include <algorithm>     // min
#include <array>         // the host's name
#include <chrono>        // the wall clock
#include <string>        // tags
#include <system_error>  // error_code
#include <utility>       // move

#include <fmt/core.h>  // names

#include <gx/reflect/fields.hpp>  // for_each_field
#include <gx/trainer/monitor/tensor_board.hpp>

namespace gx {

namespace detail::tensor_board {

GX_DECL double unix_seconds() {
    using namespace std::chrono;
    return duration<double>(system_clock::now().time_since_epoch()).count();
}

/// A name in `folder` that no file has, as TensorBoard looks for it.
GX_DECL std::filesystem::path new_name(const std::filesystem::path& folder, double now) {
    std::array<char, 256> host{};
    if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
    const std::string name = fmt::format("events.out.tfevents.{:010d}.{}.{}", std::int64_t(now),
                                         host[0] == '\0' ? "localhost" : host.data(), ::getpid());
    std::error_code ignored;
    for (int n = 0;; ++n) {
        std::filesystem::path file = folder / fmt::format("{}.{}", name, n);
        if (!std::filesystem::exists(file, ignored)) return file;
    }
}

}  // namespace detail::tensor_board

GX_DECL TensorBoard::TensorBoard(std::filesystem::path folder, std::function<double()> unix_seconds)
    : folder_(std::move(folder)),
      now_(unix_seconds ? std::move(unix_seconds) : &detail::tensor_board::unix_seconds) {
    if (folder_.empty())
        throw Error("TensorBoard(\"\"): no folder is named. Name one; \".\" is the present one.");
}

GX_DECL std::filesystem::path TensorBoard::file() const {
    return file_ ? file_->path() : std::filesystem::path();
}

GX_DECL void TensorBoard::run_begins(const RunStart& run) {
    std::error_code found_below;  // by the file, whose name can't be made
    std::filesystem::create_directories(folder_, found_below);
    const double now = now_();
    file_.emplace(detail::tensor_board::new_name(folder_, now), now);
    file_->restart(run.first_step, now);  // drops what an earlier run here had from there on
    epochs_done_ = run.first_epoch;
}

GX_DECL void TensorBoard::step_done(const StepDone& s) {
    last_ = s;
    file_->begin(s.step, now_());
    file_->add("step/loss_of_rank", s.loss_of_rank);
    file_->add("step/rate", s.rate);
    file_->add("step/loss_scale", s.loss_scale);
    file_->add("step/skipped", s.skipped ? 1 : 0);
    file_->add("step/images_per_second", s.images_per_second);
    file_->add("step/sent_bytes_per_second", s.sent_bytes_per_second);
    file_->add("step_ms/compute", 1e3 * s.breakdown.compute);
    file_->add("step_ms/exposed_communication", 1e3 * s.breakdown.exposed_communication);
    file_->add("step_ms/input", 1e3 * s.breakdown.input);
    file_->add("step_ms/idle", 1e3 * s.breakdown.idle);
    file_->end();
}

GX_DECL void TensorBoard::epoch_done(const EpochDone& e) {
    epoch_end_ = last_;
    epochs_done_ = e.row.epoch + 1;
    file_->begin(e.row.step - 1, now_());  // a restart drops its own step
    for_each_field(e.row, [&](std::string_view name, const auto& x) {
        if (name == "epoch" || name == "step" || name == "seconds") return;
        if (name.starts_with("test_") && !e.tested) return;
        file_->add("epoch/" + std::string(name), double(x));
    });
    file_->end();
}

GX_DECL void TensorBoard::ranks_lost(const RanksLost& lost) {
    if (lost.first_epoch < epochs_done_ && epoch_end_.step + 1 == lost.row.step) {
        file_->restart(epoch_end_.step, now_());  // where the epoch's values lie
        step_done(StepDone(epoch_end_));          // and this step's, which is not made again
    } else {
        file_->restart(lost.row.step, now_());
    }
    epochs_done_ = std::min(epochs_done_, lost.first_epoch);
}

}  // namespace gx
