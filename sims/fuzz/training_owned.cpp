// Trainers whose reducer owns the update: in parts, or apart.
#include <fuzz/training.hpp>

#include <gx/model/mlp.hpp>           // Mlp
#include <gx/scheduler/constant.hpp>  // Constant
#include <gx/trainer/trainer.hpp>     // Trainer

namespace gx::sim::fuzz {

RunRecord train_owned(const ReducerKind& kind, LoggedCluster& world, const Scenario& s,
                      const std::filesystem::path& output) {
    using InParts = Trainer<Mlp<>, AnyOwner<false>, Constant, Adding, StaticLossScale>;
    using Apart = Trainer<Mlp<>, AnyOwner<true>, Constant, Descending, StaticLossScale>;
    making = &kind;
    if (kind.owns.in_parts)
        return InParts(options_of_run<InParts>(s, output)).train(world, numbers(s));
    return Apart(options_of_run<Apart>(s, output)).train(world, numbers(s));
}

}  // namespace gx::sim::fuzz
