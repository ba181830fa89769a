// composition: whether six policies make a Trainer, and the one error where they do not.
#pragma once

#include <concepts>  // constructible_from
#include <string>    // name

#include <gx/core/options_of.hpp>     // options_of
#include <gx/loader/concept.hpp>      // Loader
#include <gx/loader/dataset.hpp>      // Dataset
#include <gx/model/concept.hpp>       // Model
#include <gx/optimizer/concept.hpp>   // Optimizer
#include <gx/reducer/concept.hpp>     // Reducer
#include <gx/scheduler/concept.hpp>   // Scheduler
#include <gx/trainer/loss_scale.hpp>  // LossScale
#include <gx/trainer/options.hpp>     // TrainerOptions
#include <gx/trainer/record.hpp>      // RunRecord

namespace gx {

template <class M, class R, class S, class O, class L, class Scale>
class Trainer;

namespace detail::trainer {

template <class L>
concept LoadsADataset = Loader<L> && std::constructible_from<L, const Dataset&, LoaderOptions>;

template <class L>
consteval bool explain_trainer_loader() {
    static_assert(explain_loader<L>());
    if constexpr (Loader<L>)
        static_assert(
            LoadsADataset<L>,
            "gx: this Loader can't be built from a data set and a rank's share of it. A Trainer "
            "makes one for each rank. Fix: add a constructor from 'const gx::Dataset&' and "
            "'gx::LoaderOptions', or use gx::InMemory<...>.");
    return true;
}

template <class Scale>
consteval bool explain_trainer_loss_scale() {
    using role::Role;
    if constexpr (role::may_be<Scale, Role::loss_scale>()) return explain_loss_scale<Scale>();
    else return role::reject<Scale, Role::loss_scale>();
}

/// Every policy models the role of its place.
template <class M, class R, class S, class O, class L, class Scale>
concept Composes =
    Model<M> && Reducer<R> && Scheduler<S> && Optimizer<O> && LoadsADataset<L> && LossScale<Scale>;

template <class M, class R, class S, class O, class L, class Scale>
consteval bool explain_composition() {
    static_assert(explain_model<M>());
    static_assert(explain_reducer<R>());
    static_assert(explain_scheduler<S>());
    static_assert(explain_optimizer<O>());
    static_assert(explain_trainer_loader<L>());
    static_assert(explain_trainer_loss_scale<Scale>());
    return true;
}

}  // namespace detail::trainer

/// Stands for a Trainer that can't be: its errors name the policies at fault, and its members keep
/// the program that uses it from adding others.
template <class M, class R, class S, class O, class L, class Scale>
    requires(!detail::trainer::Composes<M, R, S, O, L, Scale>)
class Trainer<M, R, S, O, L, Scale> {
    static_assert(detail::trainer::explain_composition<M, R, S, O, L, Scale>());

public:
    using Options = TrainerOptions<options_of<R>, options_of<S>, options_of<O>, options_of<Scale>>;
    Trainer() = default;
    explicit Trainer(Options);
    const Options& options() const;
    static std::string name();
    template <class W>
    RunRecord train(W&, const auto& data) const;
};

}  // namespace gx
