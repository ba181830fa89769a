// Trainers that continue on survivors from phase to phase, one for each staleness.
#include <fuzz/training.hpp>

#include <gx/loader/in_memory.hpp>                // InMemory
#include <gx/model/layers.hpp>                    // Network
#include <gx/scheduler/constant.hpp>              // Constant
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/trainer/trainer.hpp>                 // Trainer

namespace gx::sim::fuzz {

namespace {

constexpr int classes = 256;

/// Takes images of any size, and has a parameter for each element of the largest gradient.
struct Pooled
    : Network<ImageShape{1, 2, 2}, classes, Conv<16, 3, 1, 1>, GlobalAvgPool, Classifier> {
    static constexpr std::string_view name = "Pooled";
};

/// Images whose labels are their numbers: a resized one keeps it.
[[nodiscard]] Split labelled(const Scenario& s) {
    const auto of = [&](std::int64_t count) {
        GX_EXPECT(count <= classes, "a campaign has a label for each sample");
        Dataset d{.name = "labels", .shape = {1, 2, 2}, .classes = classes};
        d.pixels.resize(static_cast<std::size_t>(4 * count));
        for (std::int64_t i = 0; i < count; ++i) d.labels.push_back(static_cast<std::uint8_t>(i));
        d.mean = {0.0f};
        d.deviation = {1.0f};
        return d;
    };
    return {of(s.samples), of(s.cluster.ranks())};
}

/// InMemory, with the seeded bugs of a world that follows a loss.
class Loads : public InMemory<> {
public:
    Loads(SourceRef source, const LoaderOptions& o) : InMemory<>(source, tampered(o)) {}
    void begin_epoch(int epoch, std::int64_t done = 0) {
        const bool forgets = trial_->tampering.forget_place && phase_ > 0;
        InMemory<>::begin_epoch(epoch, forgets ? 0 : done);
    }

private:
    [[nodiscard]] static LoaderOptions tampered(LoaderOptions o) {
        if (built.trial->tampering.first_batch && built.trial->worlds.size() > 1)
            o.batch = std::min(o.batch, built.trial->scenario.batch_of(0));
        return o;
    }
    const Trial* trial_ = built.trial;
    int phase_ = built.phase;
};

template <int Staleness>
[[nodiscard]] RunRecord train(LoggedCluster& world, const Scenario& s,
                              const std::filesystem::path& output) {
    using Trains = Trainer<Pooled, AnyReducer<Staleness>, Constant, Adding, Loads, StaticLossScale,
                           ContinueOnSurvivors>;
    auto o = options_of_run<Trains>(s, output);
    o.phases = s.phases;
    o.survival.recovery = s.recovery;
    return Trains(o).train(world, labelled(s));
}

}  // namespace

RunRecord train_in_phases(const ReducerKind& kind, LoggedCluster& world, const Scenario& s,
                          const std::filesystem::path& output) {
    making = &kind;
    if (kind.staleness == 0) return train<0>(world, s, output);
    if (kind.staleness == 1) return train<1>(world, s, output);
    GX_EXPECT(kind.staleness == 2, "campaigns have reducers of staleness 0 to 2");
    return train<2>(world, s, output);
}

}  // namespace gx::sim::fuzz
