// ElasticTraining: checkpoints, and recovery between two worlds.
#pragma once

#include <algorithm>  // find, max, min
#include <exception>  // rethrow_exception
#include <string>     // sentences
#include <utility>    // move
#include <vector>     // who is left

#include <gx/sim/elastic/elastic.hpp>  // ElasticTraining

namespace gx::sim {

template <class R, class S, class Inner>
void ElasticTraining<R, S, Inner>::checkpoint(Run& run, const Held& held) {
    Checkpoint c{held.updates, held.state, held.state.size()};
    for (std::size_t i = 0; i < world_.faults.list().size(); ++i) {
        const auto* torn = std::get_if<TornCheckpoint>(&world_.faults.list()[i]);
        if (!torn || torn->write != run.written) continue;
        fired_[i] = true;
        const auto kept =
            static_cast<std::size_t>(torn->share * static_cast<double>(c.values.size()));
        c.values.resize(std::min(kept, c.whole - 1));
    }
    ++run.written;
    run.checkpoints.push_back(std::move(c));
}

// ---- Between two worlds ---------------------------------------------------------------

template <class R, class S, class Inner>
void ElasticTraining<R, S, Inner>::close(Run& run, World& world, Shared& w, ElasticSegment& s) {
    ElasticRecord& record = run.record;
    record.elapsed += s.elapsed;
    std::vector<bool> left(run.core.members.size(), true);
    int named = -1;
    for (int r = 0; r < world.ranks(); ++r) {
        if (world.died(r)) left[static_cast<std::size_t>(r)] = false;
        if (!world.error_of(r)) continue;
        try {
            std::rethrow_exception(world.error_of(r));
        } catch (const LostRank& e) {
            s.reported.push_back(e.where());
            if (named >= 0 && e.lost() != named)
                record.problems.push_back("rank " + std::to_string(r) + " names failed rank " +
                                          std::to_string(e.lost()) + " where others name rank " +
                                          std::to_string(named));
            named = e.lost();
        }
    }
    bool stopped = std::find(left.begin(), left.end(), false) != left.end();
    if (named >= 0 && stopped && !world.died(named) && !spoils(world.options().faults.list()))
        record.problems.push_back("rank " + std::to_string(named) +
                                  " is named as failed; it is alive, and another rank has died");
    if (!stopped && named >= 0) {
        left[static_cast<std::size_t>(named)] = false;  // alive, and out of reach
        for (int r = 0; r < world.ranks(); ++r)         // as others may be, behind the same switch
            if (world.unreachable(r)) left[static_cast<std::size_t>(r)] = false;
        stopped = true;
    }
    // Survivors with as many updates hold the same bits.
    std::uint64_t most = w.first;
    const Held* first = nullptr;
    for (std::size_t i = 0; i < left.size(); ++i) {
        const int member = run.core.members[i];
        const Held& h = run.held[static_cast<std::size_t>(member)];
        if (!left[i]) {
            s.lost.push_back(member);
            continue;
        }
        most = std::max(most, h.updates);
    }
    for (std::size_t i = 0; i < left.size(); ++i) {
        const Held& h = run.held[static_cast<std::size_t>(run.core.members[i])];
        if (!left[i] || h.updates != most) continue;
        if (first && (first->state.size() != h.state.size() ||
                      hash_bits(first->state) != hash_bits(h.state)))  // equal bits, NaN too
            record.problems.push_back("rank " + std::to_string(run.core.members[i]) +
                                      " has as many updates as another rank and a different state");
        first = &h;
    }
    // A checkpoint may hold an update that no survivor has made: leave_out() decides.
    if (o_.recovery == Recovery::survivors) record.updates.resize(most);
    s.updates = record.updates.size() - w.first;
    record.segments.push_back(std::move(s));
    const std::int64_t reached = record.updates.empty() ? 0 : record.updates.back().end;
    record.finished = reached == end_of_run() && record.segments.back().ended.empty();
    if (record.finished || !stopped) return;
    record.elapsed += o_.restart_time;
    leave_out(run, left);
}

template <class R, class S, class Inner>
void ElasticTraining<R, S, Inner>::leave_out(Run& run, const std::vector<bool>& left) {
    ElasticRecord& record = run.record;
    run.core = core_of(run.core, left, world_.faults.reroutes());
    if (o_.recovery == Recovery::survivors) return;
    // All members read the newest checkpoint that is whole.
    Held from{};
    for (std::size_t i = run.checkpoints.size(); i-- > 0;) {
        const Checkpoint& c = run.checkpoints[i];
        if (c.values.size() == c.whole) {
            from = {c.updates, c.values};
            break;
        }
        record.notes.push_back("the checkpoint after update " + std::to_string(c.updates) +
                               " is torn: " + std::to_string(c.values.size()) + " numbers of " +
                               std::to_string(c.whole) + "; an older one is used");
    }
    while (!run.checkpoints.empty() && run.checkpoints.back().updates > from.updates)
        run.checkpoints.pop_back();
    for (Held& h : run.held) h = from;
    keep(record, from.updates);
}

}  // namespace gx::sim
