// Candidate: one way to run a training job, its time and price; pareto_front marks the best.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gx/core/units.hpp>  // Bytes, Dollars, Nanoseconds

namespace gx::tools::plan {

/// Batch and image size from an epoch on, as the Trainer's Phase.
struct JobPhase {
    int first_epoch = 0;
    int batch_per_gpu = 0;
    int image_side = 0;  ///< pixels
};

/// What is to be trained, and what it may cost.
struct Job {
    std::string model{};
    std::int64_t parameters = 0;  ///< of a network of the user's own; 0: of a known one
    int sequence_length = 0;      ///< tokens of an example; 0: examples are images
    std::int64_t examples = 0;    ///< in the data set
    int epochs = 0;
    int global_batch = 0;             ///< examples a step on all GPUs; 0: `batch_per_gpu` on each
    int batch_per_gpu = 0;            ///< 0: `global_batch` shared
    std::vector<JobPhase> phases{};   ///< in place of both batches; none: one for all epochs
    std::optional<Dollars> budget{};  ///< on demand
    std::optional<Nanoseconds> deadline{};

    [[nodiscard]] std::string network() const;  ///< "BERT-large on sequences of 128 tokens"
};

/// The choices that make a candidate.
struct Configuration {
    std::string machine{};
    int machines = 0;
    int gpus = 0;  ///< of all machines
    int batch_per_gpu = 0;
    int micro_batches = 1;  ///< that it is computed in
    std::string reducer{};  ///< as gx spells it: wire, machine orders and overlap in one name
    std::string wire{};
    Bytes bucket{};  ///< 0: the whole gradient at once
    int staleness = 0;

    [[nodiscard]] std::string method() const;  ///< all but the machines
    [[nodiscard]] std::string text() const;
};

/// Bounds of a step's time that hold it in 80 of 100 cases.
struct StepInterval {
    Nanoseconds low{}, high{};
};

struct Candidate {
    Configuration choice{};
    Nanoseconds step{};
    std::optional<StepInterval> step_80{};  ///< empty: nothing is known of its errors
    Nanoseconds exposed{};    ///< of a step: waiting for communication, and interference by it
    Nanoseconds framework{};  ///< of a step: the stack's hooks, packing and stragglers
    std::int64_t steps = 0;
    Nanoseconds total{};                     ///< steps only: no start-up, evaluation or checkpoints
    std::vector<Nanoseconds> phase_steps{};  ///< of a job with phases, whose mean `step` is, and
                                             ///< so `exposed` and `framework`
    std::optional<Dollars> on_demand{}, spot{};  ///< empty: no such price of it is known
    std::string infeasible{};                    ///< why it cannot run at all; empty: it can
    bool simulated = true;  ///< false: infeasible for its number of messages alone
    bool on_front = false;  ///< nothing else is both faster and cheaper (on demand), and staleness
                            ///< gains 1 %; an unknown price counts as the dearest
    bool allowed = false;   ///< runs, within budget and deadline
    std::string why{};      ///< why it is dominated or refused; empty on the front

    [[nodiscard]] double exposed_pct() const;
};

/// "999 parameters", "25.56 million parameters" or "1.5 billion parameters".
[[nodiscard]] std::string parameters_text(std::int64_t parameters);

/// "31.3 ms", "7.25 s", "90 s", "27.3 min" or "2.83 h".
[[nodiscard]] std::string hours(Nanoseconds t);
/// Dollars: "12.30", or below a cent "0.0024".
[[nodiscard]] std::string price(Dollars p);
/// The 80 % interval of a step in milliseconds, "12.3 to 14.5"; "-" where none is known.
[[nodiscard]] std::string step_bounds(const Candidate& c);

/// Sorts candidates by time, those that break a limit behind the others and those that cannot run
/// last, and marks the Pareto front of time and dollars on demand. Left out of it are candidates
/// that gain little by stale gradients: those for which one of less staleness takes at most 1 %
/// more time and at most 1 % more dollars. Each one that is not on it gets `why`: what it lacks or
/// breaks, else the better one on the same machines, else the front's nearest that is no slower and
/// no dearer, else the one of less staleness.
/// Order: stable, so that equal candidates stay in the order in which they were made.
/// Cost:  O(n log n + n * front), and to find the best of the same machines O(n) each at most.
void pareto_front(std::vector<Candidate>& candidates, const Job& job);

/// Where pareto_front() has allowed none of the candidates: the fastest and the cheapest of the
/// front that they would have without limits. Empty where one is allowed, or none runs.
[[nodiscard]] std::vector<const Candidate*> nearest(const std::vector<Candidate>& candidates);

}  // namespace gx::tools::plan
