// StepModel: the time of a training step under a stack: computation, and what it does not hide.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <tools/predict/conditions.hpp>  // Conditions
#include <tools/predict/hardware.hpp>    // Hardware
#include <tools/predict/model_work.hpp>  // ModelWork
#include <tools/predict/stack.hpp>       // Stack, Calibration
#include <tools/predict/wire_time.hpp>   // WireTime, Group

namespace gx::tools::predict {

struct Step {
    double total_ms = 0, exposed_ms = 0, floor_ms = 0;
};

/// Steps of one case: a model on a stack on hardware.
class StepModel {
public:
    /// Errors: gx::Error for a gradient of more than `most_buckets` buckets.
    StepModel(const Conditions& c, const Stack& stack, const Hardware& h, const ModelWork& work,
              const Calibration& k, WireTime& wire);

    /// The step of such GPUs that compute for `compute_ms`, on `batch` samples each.
    [[nodiscard]] Step of(Group g, double compute_ms, double batch);
    /// The computation inside a step that took `total_ms`: the inverse of `of`, by bisection.
    [[nodiscard]] double compute_in(Group g, double total_ms, double batch);
    /// What a rank alone pays for the framework's hooks: bucket copies, without a wire.
    [[nodiscard]] double hooks_ms() const { return 0.5 * host_ * stack_.step_ms; }
    /// The bytes of a ring at line rate: no step that reduces is shorter.
    [[nodiscard]] double wire_ms(Group g) const;
    /// What lies between the GPUs of a group.
    [[nodiscard]] Between between(Group g) const { return h_.between(g.machines); }
    /// "ring" or "tree", as the last all-reduce went; empty: none did.
    [[nodiscard]] const std::string& algorithm() const { return algorithm_; }

    static constexpr double most_buckets = 100'000;

private:
    [[nodiscard]] bool decodes_on_cpu() const;
    [[nodiscard]] double fed(double total_ms, double images) const;
    [[nodiscard]] double overhead(Group g, double compute_ms) const;
    [[nodiscard]] double hidden_in(double wire_ms, double window_ms) const;
    [[nodiscard]] double exposed(Group g, double compute_ms);
    [[nodiscard]] FasterLine line(Group g);
    [[nodiscard]] double message_mb() const;
    [[nodiscard]] double bucket() const;
    [[nodiscard]] double exposed_after(const FasterLine& line, double compute_ms) const;
    [[nodiscard]] double fused(const FasterLine& line, double backward) const;
    [[nodiscard]] double bucketed(const FasterLine& line, double backward) const;
    [[nodiscard]] double with_interference(double late, double busy) const;
    [[nodiscard]] double exposed_local(Group g, double compute_ms);
    [[nodiscard]] double exposed_servers(Group g, double compute_ms);
    [[nodiscard]] double exposed_keys(Group g, double compute_ms);

    const Conditions& c_;
    const Stack& stack_;
    const Hardware& h_;
    const ModelWork& work_;
    const Calibration& k_;
    WireTime& wire_;
    double memory_ = 1, host_ = 1, mb_ = 0, pair_ = 0;
    std::vector<std::pair<Group, FasterLine>> lines_{};  ///< asked before
    std::string algorithm_{};
};

}  // namespace gx::tools::predict
