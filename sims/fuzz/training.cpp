// Trainers that continue on survivors, one for each staleness.
#include <fuzz/training.hpp>

#include <gx/model/mlp.hpp>                       // Mlp
#include <gx/scheduler/constant.hpp>              // Constant
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/trainer/trainer.hpp>                 // Trainer

namespace gx::sim::fuzz {

namespace {

template <int Staleness>
[[nodiscard]] RunRecord train(LoggedCluster& world, const Scenario& s,
                              const std::filesystem::path& output) {
    using Trains = Trainer<Mlp<>, AnyReducer<Staleness>, Constant, Adding, StaticLossScale,
                           ContinueOnSurvivors>;
    auto o = options_of_run<Trains>(s, output);
    o.survival.recovery = s.recovery;
    return Trains(o).train(world, numbers(s));
}

}  // namespace

RunRecord train_replicas(const ReducerKind& kind, LoggedCluster& world, const Scenario& s,
                         const std::filesystem::path& output) {
    making = &kind;
    if (kind.staleness == 0) return train<0>(world, s, output);
    if (kind.staleness == 1) return train<1>(world, s, output);
    GX_EXPECT(kind.staleness == 2, "campaigns have reducers of staleness 0 to 2");
    return train<2>(world, s, output);
}

}  // namespace gx::sim::fuzz
