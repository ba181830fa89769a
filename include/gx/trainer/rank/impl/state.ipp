// What a checkpoint lacks for a rank's state, in a sentence.
#pragma once

#include <algorithm>    // count, min
#include <span>         // scalars
#include <string>       // sentences
#include <string_view>  // names
#include <vector>       // shapes

#include <gx/core/contract.hpp>       // GX_EXPECT
#include <gx/core/error.hpp>          // Error
#include <gx/io/json_text.hpp>        // json_quoted
#include <gx/io/json_value.hpp>       // read_json
#include <gx/trainer/rank/state.hpp>  // the declarations

namespace gx::detail::trainer {

/// Throws unless a policy's state has the size stored in the checkpoint.
GX_COLD GX_DECL void expect_kept(const std::string& file, std::size_t kept, std::size_t needed,
                                 const std::string& what) {
    if (kept == needed) return;
    throw Error("checkpoint '" + file + "' keeps " + std::to_string(kept) + " " + what +
                " where this run needs " + std::to_string(needed) +
                ". Resume with the composition that wrote it.");
}

/// Throws unless the state of `policy` has the name stored in the checkpoint.
GX_COLD GX_DECL void expect_named(const std::string& file, const std::string& kept,
                                  std::string_view needed, const std::string& policy) {
    if (kept == needed) return;
    throw Error("checkpoint '" + file + "' keeps '" + kept + "' of " + policy +
                " where this run has '" + std::string(needed) +
                "'. Resume with the composition that wrote it.");
}

/// Throws unless the state is kept once for all ranks, or for each, as this run does.
GX_COLD GX_DECL void expect_scope(const std::string& file, const std::string& name, bool replicated,
                                  bool needed, const std::string& policy) {
    if (replicated == needed) return;
    const auto kept = [](bool one) { return one ? "once for all ranks" : "for each rank"; };
    throw Error("checkpoint '" + file + "' keeps '" + name + "' of " + policy + " " +
                kept(replicated) + ", and this run keeps it " + kept(needed) +
                ". Resume with the composition that wrote it.");
}

GX_DECL void expect_fits(const Checkpoint& c, const std::string& file, const StateNeeds& needs) {
    expect_kept(file, c.optimizer.size(), needs.vectors.size(), "vectors of the optimizer");
    for (std::size_t i = 0; i < c.optimizer.size(); ++i)
        expect_named(file, c.optimizer[i].name, needs.vectors[i], "an optimizer");
    expect_kept(file, c.scalars.size(), needs.scalars.size(), "scalars of the optimizer");
    for (std::size_t i = 0; i < c.scalars.size(); ++i)
        expect_named(file, c.scalars[i].name, needs.scalars[i], "an optimizer");
    const StateList& state = needs.reducer_state;
    const std::string reducer = "reducer " + needs.reducer;
    expect_kept(file, c.reducer.size(), state.size(), "vectors of " + reducer);
    for (std::size_t i = 0; i < state.size(); ++i) {
        expect_named(file, c.reducer[i].name, state[i].name, reducer);
        expect_kept(file, c.reducer[i].ranks.front().size(),
                    state[i].is_gradient ? needs.elements : state[i].size(),
                    "numbers of '" + c.reducer[i].name + "' of " + reducer);
        expect_scope(file, c.reducer[i].name, c.reducer[i].replicated,
                     state[i].scope == StateScope::replicated, reducer);
    }
    const auto in_flight =
        std::min(std::size_t(c.step - c.world_step), std::size_t(needs.staleness));
    if (c.pending.empty() && needs.goes_on && in_flight > 0)
        throw Error("checkpoint '" + file +
                    "' keeps no gradient in flight: the run that wrote it ended there, and had "
                    "applied them all. Resume from an earlier one, or train more epochs from the "
                    "beginning.");
    if (needs.goes_on || !c.pending.empty())
        expect_kept(file, c.pending.size(), in_flight, "gradients in flight");
    expect_kept(file, needs.statistics, c.statistics.size(), "running statistics");
}

GX_COLD GX_DECL void expect_scalars(std::size_t names, std::size_t scalars) {
    GX_EXPECT(names == scalars, "an optimizer has as many scalar_names as scalars()");
}
GX_DECL void keep_scalars(Checkpoint& c, const std::vector<std::string>& names,
                          std::span<const double> scalars) {
    expect_scalars(names.size(), scalars.size());
    for (std::size_t i = 0; i < names.size(); ++i) c.scalars.push_back({names[i], scalars[i]});
}
GX_DECL void take_scalars(const Checkpoint& c, std::span<double> scalars) {
    expect_scalars(c.scalars.size(), scalars.size());
    for (std::size_t i = 0; i < scalars.size(); ++i) scalars[i] = c.scalars[i].value;
}

/// Whether a checkpoint's header gives `name` back.
GX_DECL bool survives_a_header(const std::string& name) {
    return !name.empty() && read_json(json_quoted(name)).text == name;
}

GX_DECL std::vector<StateShape> shapes_of(const StateList& state, std::size_t elements,
                                          const std::string& reducer) {
    std::vector<StateShape> shapes;
    for (const StateVector& v : state) {
        StateShape s{std::string(v.name), v.size(), v.scope, v.is_gradient};
        if (!survives_a_header(s.name))
            throw Error("reducer " + reducer + ": the name of vector " +
                        std::to_string(shapes.size()) +
                        " of its state() is empty or not UTF-8, and a checkpoint keeps the vector "
                        "by it. Give it a name.");
        if (std::ranges::count(shapes, s.name, &StateShape::name) > 0)
            throw Error("reducer " + reducer + ": two vectors of its state() are named '" + s.name +
                        "', and a checkpoint keeps them by name. Give each its own.");
        if (s.is_gradient && s.size != elements)
            throw Error("reducer " + reducer + ": '" + s.name + "' of its state() has " +
                        std::to_string(s.size) + " numbers where a gradient has " +
                        std::to_string(elements) +
                        ". Reserve plan.elements, or leave is_gradient false.");
        shapes.push_back(std::move(s));
    }
    return shapes;
}

GX_DECL void expect_shapes(const std::vector<StateShape>& reserved,
                           const std::vector<StateShape>& now, int rank, std::int64_t step,
                           const std::string& reducer) {
    const std::string where =
        "rank " + std::to_string(rank) + ", step " + std::to_string(step) + ": reducer " + reducer;
    const std::string fix =
        ". A run that resumes restores what was reserved: give each vector its full length in "
        "reserve(), and the same name and scope in each state().";
    if (reserved.size() != now.size())
        throw Error(where + " has " + std::to_string(now.size()) +
                    " vectors in its state() where it had " + std::to_string(reserved.size()) +
                    " after reserve()" + fix);
    for (std::size_t i = 0; i < now.size(); ++i) {
        if (now[i].size != reserved[i].size)
            throw Error(where + " has " + std::to_string(now[i].size) + " numbers in '" +
                        now[i].name + "' of its state() where it had " +
                        std::to_string(reserved[i].size) + " after reserve()" + fix);
        if (now[i] != reserved[i])
            throw Error(where + " has '" + now[i].name + "' in its state() where it had '" +
                        reserved[i].name + "' after reserve(), or in another scope" + fix);
    }
}

}  // namespace gx::detail::trainer
