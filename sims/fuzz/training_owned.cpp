// Trainers whose reducer owns the update, in parts or apart: they go on from checkpoints, or stop.
#include <fuzz/training.hpp>

#include <gx/model/mlp.hpp>                       // Mlp
#include <gx/scheduler/constant.hpp>              // Constant
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/trainer/trainer.hpp>                 // Trainer

namespace gx::sim::fuzz {

namespace {

template <bool Apart, class O, class Survival>
[[nodiscard]] RunRecord train(LoggedCluster& world, const Scenario& s,
                              const std::filesystem::path& output) {
    using Trains = Trainer<Mlp<>, AnyOwner<Apart>, Constant, O, StaticLossScale, Survival>;
    auto o = options_of_run<Trains>(s, output);
    if constexpr (Survival::continues) o.survival.recovery = Recovery::checkpoint;
    return Trains(o).train(world, numbers(s));
}

}  // namespace

RunRecord train_owned(const ReducerKind& kind, LoggedCluster& world, const Scenario& s,
                      const std::filesystem::path& output) {
    making = &kind;
    const bool goes_on = kind.goes_on(s.recovery);
    const auto run = [&](auto when_it_goes_on, auto when_it_stops) {
        return (goes_on ? when_it_goes_on : when_it_stops)(world, s, output);
    };
    if (kind.owns.in_parts)
        return run(train<false, Adding, ContinueOnSurvivors>, train<false, Adding, StopOnLoss>);
    return run(train<true, Descending, ContinueOnSurvivors>, train<true, Descending, StopOnLoss>);
}

}  // namespace gx::sim::fuzz
