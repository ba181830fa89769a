// Mutant: a collective with one change; a proof that accepts one of them proves nothing.
#pragma once

#include <gtest/gtest.h>

#include <gx/collective/proof.hpp>  // prove

enum class Change : unsigned char {
    step_dropped,     ///< by all ranks
    step_repeated,    ///< by all ranks
    rank_silent,      ///< in one step
    another_peer,     ///< of one send
    another_chunk,    ///< of one message, on both sides
    another_combine,  ///< add for copy, copy for add
};

template <gx::PromisingCollective C>
class Mutant : public C {
public:
    Mutant(const C& right, Change change, int rank, int step)
        : C(right), change_(change), rank_(rank), step_(step) {}

    /// Whether the change is one, and breaks the promise.
    [[nodiscard]] bool is_wrong() const {
        const gx::Exchange e = C::exchange(rank_, step_);
        switch (change_) {
            case Change::step_dropped: return true;
            case Change::step_repeated:  // to copy twice does no harm, to swap twice undoes it
                return adds_in(step_) || C::promise == gx::Promise::all_to_all;
            case Change::rank_silent: return e != gx::Exchange{};
            case Change::another_peer: return e.to >= 0 && C::ranks() > 2;
            case Change::another_chunk: return e.to >= 0 && e.chunks < C::chunks();
            case Change::another_combine: return e.from >= 0;
        }
        return false;
    }
    [[nodiscard]] int steps() const {
        return C::steps() + (change_ == Change::step_repeated) - (change_ == Change::step_dropped);
    }
    [[nodiscard]] gx::Exchange exchange(int rank, int step) const {
        if (change_ == Change::step_dropped)
            return C::exchange(rank, step < step_ ? step : step + 1);
        if (change_ == Change::step_repeated)
            return C::exchange(rank, step <= step_ ? step : step - 1);
        gx::Exchange e = C::exchange(rank, step);
        if (step != step_) return e;
        if (change_ == Change::another_chunk && e.from == rank_ &&
            C::promise != gx::Promise::all_to_all)
            e.receive_chunk = beside(e.receive_chunk, e.chunks);
        if (rank != rank_) return e;
        if (change_ == Change::rank_silent) return {};
        if (change_ == Change::another_peer) {
            e.to = (e.to + 1) % C::ranks();
            if (e.to == rank) e.to = (e.to + 1) % C::ranks();
        }
        if (change_ == Change::another_chunk) e.send_chunk = beside(e.send_chunk, e.chunks);
        if (change_ == Change::another_combine)
            e.combine = e.combine == gx::Combine::add ? gx::Combine::copy : gx::Combine::add;
        return e;
    }

private:
    [[nodiscard]] bool adds_in(int step) const {
        for (int rank = 0; rank < C::ranks(); ++rank)
            if (C::exchange(rank, step).combine == gx::Combine::add) return true;
        return false;
    }
    [[nodiscard]] int beside(int chunk, int several) const {
        return chunk + several < C::chunks() ? chunk + 1 : chunk - 1;
    }
    Change change_;
    int rank_, step_;
};

/// Every change of every exchange is refused; returns how many there were.
template <gx::PromisingCollective C>
int expect_mutants_refused(const C& right) {
    int refused = 0;
    EXPECT_TRUE(prove(right).holds()) << to_string(prove(right));
    for (const Change change :
         {Change::step_dropped, Change::step_repeated, Change::rank_silent, Change::another_peer,
          Change::another_chunk, Change::another_combine})
        for (int step = 0; step < right.steps(); ++step)
            for (int rank = 0; rank < right.ranks(); ++rank) {
                const Mutant<C> mutant(right, change, rank, step);
                if (!mutant.is_wrong()) continue;
                const gx::collective::Proof proof = prove(mutant);
                EXPECT_FALSE(proof.holds())
                    << right.ranks() << " ranks, change " << static_cast<int>(change) << " of rank "
                    << rank << " in step " << step;
                EXPECT_GE(proof.rank, 0) << to_string(proof);
                ++refused;
            }
    return refused;
}
