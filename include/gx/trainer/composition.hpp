// composition: a Trainer's policies by role, and one error where they make none.
#pragma once

#include <concepts>  // constructible_from, same_as
#include <string>    // name

#include <gx/core/element.hpp>           // fp16
#include <gx/reflect/options_of.hpp>     // options_of
#include <gx/loader/concept.hpp>         // Loader
#include <gx/loader/dataset.hpp>         // Dataset
#include <gx/loader/in_memory.hpp>       // InMemory
#include <gx/model/compute.hpp>          // Compute
#include <gx/loader/source.hpp>          // SourceRef
#include <gx/model/concept.hpp>          // Model
#include <gx/optimizer/concept.hpp>      // Optimizer
#include <gx/optimizer/sgd.hpp>          // Sgd
#include <gx/reducer/concept.hpp>        // Reducer
#include <gx/scheduler/concept.hpp>      // Scheduler
#include <gx/survival/stop_on_loss.hpp>  // StopOnLoss, Survival
#include <gx/trainer/loss_scale.hpp>     // LossScale
#include <gx/trainer/options.hpp>        // TrainerOptions
#include <gx/trainer/record.hpp>         // RunRecord

namespace gx {

template <class M, class R, class S, class... Policies>
class Trainer;

namespace detail::trainer {

template <class... Policies>
using compute_of = typename role::Pick<role::Role::compute, Compute<fp32>, Policies...>::type;

/// fp16 underflows and overflows, on the wire as in the device; fp32 and bf16 do neither. Ranks
/// that update apart put no gradient on the wire, and decide alone what overflows.
template <class R, class C>
struct DefaultLossScale {
    using type = StaticLossScale;
};
template <class R, class C>
    requires((std::same_as<typename R::wire_type, fp16> ||
              std::same_as<typename C::compute_type, fp16>) &&
             !updates_apart<R>)
struct DefaultLossScale<R, C> {
    using type = DynamicLossScale;
};
template <class R, class... Policies>
using default_loss_scale = typename DefaultLossScale<R, compute_of<Policies...>>::type;

template <class... Policies>
using optimizer_of = typename role::Pick<role::Role::optimizer, Sgd, Policies...>::type;
template <class... Policies>
using loader_of = typename role::Pick<role::Role::loader, InMemory<>, Policies...>::type;
template <class R, class... Policies>
using loss_scale_of = typename role::Pick<role::Role::loss_scale,
                                          default_loss_scale<R, Policies...>, Policies...>::type;
template <class... Policies>
using survival_of = typename role::Pick<role::Role::survival, StopOnLoss, Policies...>::type;

/// Each of the policies has a role of its own.
template <class... Policies>
concept FurtherPolicies = (... && (role::count_of<role::Role::optimizer, Policies> +
                                       role::count_of<role::Role::loader, Policies> +
                                       role::count_of<role::Role::loss_scale, Policies> +
                                       role::count_of<role::Role::survival, Policies> +
                                       role::count_of<role::Role::compute, Policies> ==
                                   1)) &&
                          role::count_of<role::Role::optimizer, Policies...> <= 1 &&
                          role::count_of<role::Role::loader, Policies...> <= 1 &&
                          role::count_of<role::Role::loss_scale, Policies...> <= 1 &&
                          role::count_of<role::Role::survival, Policies...> <= 1 &&
                          role::count_of<role::Role::compute, Policies...> <= 1;

template <class... Policies>
consteval bool explain_further_policies() {
    using role::Role;
    static_assert((... && role::explain_further<Policies>()));
    static_assert(role::count_of<Role::optimizer, Policies...> <= 1,
                  "gx: this Trainer has two Optimizers. One moves the parameters. Fix: drop one.");
    static_assert(role::count_of<Role::loader, Policies...> <= 1,
                  "gx: this Trainer has two Loaders. One gives the batches. Fix: drop one.");
    static_assert(role::count_of<Role::loss_scale, Policies...> <= 1,
                  "gx: this Trainer has two LossScales. One scales the loss. Fix: drop one.");
    static_assert(role::count_of<Role::survival, Policies...> <= 1,
                  "gx: this Trainer has two Survivals. One says what follows the loss of a rank. "
                  "Fix: drop one.");
    static_assert(role::count_of<Role::compute, Policies...> <= 1,
                  "gx: this Trainer has two Computes. One names the element that devices compute "
                  "in. Fix: drop one.");
    return true;
}

template <class L>
concept LoadsADataset = Loader<L> && std::constructible_from<L, const Dataset&, LoaderOptions>;
/// One of any source; others load data sets in memory only.
template <class L>
concept LoadsASource = LoadsADataset<L> && std::constructible_from<L, SourceRef, LoaderOptions>;

template <class L>
consteval bool explain_trainer_loader() {
    static_assert(explain_loader<L>());
    if constexpr (Loader<L>)
        static_assert(
            LoadsADataset<L>,
            "gx: this Loader can't be built from a data set and a rank's share of it. A Trainer "
            "makes one for each rank. Fix: add a constructor from 'gx::SourceRef' or 'const "
            "gx::Dataset&' and 'gx::LoaderOptions', or use gx::InMemory<...>.");
    return true;
}

/// A loader that can go on within an epoch, where the survival asks for it.
template <class V, class L>
concept SurvivesWith = Survival<V> && (!V::continues || BeginsWithin<L>);

template <class V, class L>
consteval bool explain_trainer_survival() {
    static_assert(explain_survival<V>());
    if constexpr (Survival<V> && LoadsADataset<L>) {
        static_assert(
            !V::continues || BeginsWithin<L>,
            "gx: ContinueOnSurvivors needs a Loader that can begin within an epoch, and this one "
            "begins at its first image. Fix: add 'void begin_epoch(int epoch, int64_t done)' and "
            "'int64_t steps_after(int64_t done) const', as gx/loader/concept.hpp says.");
    }
    return true;
}

template <class Scale>
consteval bool explain_trainer_loss_scale() {
    using role::Role;
    if constexpr (role::may_be<Scale, Role::loss_scale>()) return explain_loss_scale<Scale>();
    else return role::reject<Scale, Role::loss_scale>();
}

/// Whether the ranks can share the updates of O, and the decisions of Scale, as R shares them.
template <class R, class O>
concept SharesUpdates =
    !OwnsUpdate<R> || !R::owns_update.in_parts || Elementwise<O> || AddsNorms<O>;
template <class R, class O>
concept KeepsScalarsAlike = !updates_apart<R> || !KeepsScalars<O> || Elementwise<O>;
template <class R, class Scale>
concept DecidesAlone = !updates_apart<R> || std::same_as<Scale, StaticLossScale>;
template <class R, class O>
concept KeepsOneAverage = !updates_apart<R> || !AveragesWeights<O>;

template <class R, class O, class Scale>
consteval bool explain_ownership() {
    static_assert(SharesUpdates<R, O> || !AveragesWeights<O>,
                  "gx: each rank updates a part of the parameters, and gx::WeightAverage keeps one "
                  "average of all. Fix: use the Optimizer without it, or a Reducer that updates "
                  "all parameters on every rank.");
    static_assert(SharesUpdates<R, O> || AveragesWeights<O>,
                  "gx: each rank updates a part of the parameters, and this Optimizer does not say "
                  "that it can: a rule that looks at several elements would see some of them. Fix: "
                  "add 'static constexpr bool elementwise = true' to it if it looks at one, or "
                  "add_norms() and update_with(), as gx::Lars has them.");
    static_assert(KeepsScalarsAlike<R, O>,
                  "gx: each rank applies gradients of its own, and the scalars() of this Optimizer "
                  "may come to differ. Fix: add 'static constexpr bool elementwise = true' to it "
                  "if they depend on the number of updates alone.");
    static_assert(
        DecidesAlone<R, Scale>,
        "gx: each rank applies gradients of its own and skips its own overflows, so a loss "
        "scale that learns would differ between ranks. Fix: use gx::StaticLossScale.");
    static_assert(KeepsOneAverage<R, O>,
                  "gx: each rank applies gradients of its own, so the averages of the weights that "
                  "its Optimizer keeps differ between ranks, and a test would be of several "
                  "networks. Fix: use the Optimizer without gx::WeightAverage.");
    return true;
}

/// Every policy models its role.
template <class M, class R, class S, class... Policies>
concept Composes =
    Model<M> && Reducer<R> && Scheduler<S> && FurtherPolicies<Policies...> &&
    detail::compute::NamesItsElement<compute_of<Policies...>> &&
    Optimizer<optimizer_of<Policies...>> && LoadsADataset<loader_of<Policies...>> &&
    LossScale<loss_scale_of<R, Policies...>> && SharesUpdates<R, optimizer_of<Policies...>> &&
    KeepsScalarsAlike<R, optimizer_of<Policies...>> &&
    DecidesAlone<R, loss_scale_of<R, Policies...>> &&
    KeepsOneAverage<R, optimizer_of<Policies...>> &&
    SurvivesWith<survival_of<Policies...>, loader_of<Policies...>>;

template <class M, class R, class S, class... Policies>
consteval bool explain_composition() {
    static_assert(explain_model<M>());
    static_assert(explain_reducer<R>());
    static_assert(explain_scheduler<S>());
    static_assert(explain_further_policies<Policies...>());
    static_assert(explain_compute<compute_of<Policies...>>());
    static_assert(explain_optimizer<optimizer_of<Policies...>>());
    static_assert(explain_trainer_loader<loader_of<Policies...>>());
    if constexpr (Reducer<R>)
        static_assert(explain_trainer_loss_scale<loss_scale_of<R, Policies...>>());
    if constexpr (Reducer<R> && Optimizer<optimizer_of<Policies...>>)
        static_assert(
            explain_ownership<R, optimizer_of<Policies...>, loss_scale_of<R, Policies...>>());
    static_assert(explain_trainer_survival<survival_of<Policies...>, loader_of<Policies...>>());
    return true;
}

}  // namespace detail::trainer

/// Stands for a Trainer that can't be: its errors name the policies at fault, and its members keep
/// the program that uses it from adding others.
template <class M, class R, class S, class... Policies>
    requires(!detail::trainer::Composes<M, R, S, Policies...>)
class Trainer<M, R, S, Policies...> {
    static_assert(detail::trainer::explain_composition<M, R, S, Policies...>());

public:
    using Options = TrainerOptions<options_of<R>, options_of<S>,
                                   options_of<detail::trainer::optimizer_of<Policies...>>,
                                   options_of<detail::trainer::loss_scale_of<R, Policies...>>,
                                   options_of<detail::trainer::survival_of<Policies...>>>;
    Trainer() = default;
    explicit Trainer(Options);
    const Options& options() const;
    static std::string name(const options_of<detail::trainer::optimizer_of<Policies...>>& = {});
    template <class W>
    RunRecord train(W&, const auto& data) const;
};

}  // namespace gx
