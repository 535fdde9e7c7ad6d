//! The order of parts (whole units in the classic mode): learned on the first pass, verified on each later one.

/// How a request relates to the learned order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Nothing is learned yet, or this pass has already left the order.
    Unplanned,
    /// As learned.
    Expected,
    /// The first request of this pass that is not as learned.
    Mismatch,
}

/// Learns and follows the order of parts.
#[derive(Clone, Debug, Default)]
pub struct PassOrder {
    learned: Vec<usize>,
    current: Vec<usize>,
    following: bool,
    passes: u64,
    mismatches: u64,
    requests: u64,
}

impl PassOrder {
    /// What asking for a part after `later` further ones would be.
    pub fn foresee(&self, part: usize, later: usize) -> Arrival {
        match self.learned.get(self.current.len() + later) {
            _ if !self.following => Arrival::Unplanned,
            Some(expected) if *expected == part => Arrival::Expected,
            _ => Arrival::Mismatch,
        }
    }

    /// Notes that a part was asked for and granted.
    pub fn arrive(&mut self, part: usize) -> Arrival {
        let arrival = self.foresee(part, 0);
        self.current.push(part);
        self.requests += 1;
        if arrival == Arrival::Mismatch {
            self.following = false;
            self.mismatches += 1;
        }
        arrival
    }

    /// Ends a pass. The order just seen is followed next; a pass without units teaches nothing.
    pub fn end_pass(&mut self) {
        if self.current.is_empty() {
            return;
        }
        self.learned = std::mem::take(&mut self.current);
        self.following = true;
        self.passes += 1;
    }

    /// The part expected after `later` further ones, wrapping into the next pass; `None` a whole pass from here and
    /// while nothing is followed.
    pub fn ahead(&self, later: usize) -> Option<usize> {
        let length = if self.following { self.learned.len() } else { 0 };
        if later >= length {
            return None;
        }
        self.learned.get((self.current.len() + later) % length).copied()
    }

    /// The part that was asked for last in this pass.
    pub fn latest(&self) -> Option<usize> {
        self.current.last().copied()
    }

    /// Parts that were asked for and granted, over all passes.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Passes that taught an order.
    pub fn passes(&self) -> u64 {
        self.passes
    }

    /// Passes that left the learned order.
    pub fn mismatches(&self) -> u64 {
        self.mismatches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead(order: &PassOrder) -> Vec<usize> {
        (0..).map_while(|later| order.ahead(later)).collect()
    }

    fn pass(order: &mut PassOrder, units: &[usize]) -> Vec<Arrival> {
        let arrivals = units.iter().map(|unit| order.arrive(*unit)).collect();
        order.end_pass();
        arrivals
    }

    #[test]
    fn the_second_pass_is_expected_and_wraps() {
        let mut order = PassOrder::default();
        assert!(pass(&mut order, &[3, 1, 2]).iter().all(|a| *a == Arrival::Unplanned));
        assert_eq!((order.foresee(1, 1), order.foresee(1, 2)), (Arrival::Expected, Arrival::Mismatch));
        order.arrive(3);
        assert_eq!(ahead(&order), [1, 2, 3]);
        order.arrive(1);
        order.arrive(2);
        assert_eq!(ahead(&order), [3, 1, 2], "into the next pass");
        assert_eq!((order.passes(), order.requests()), (1, 6));
    }

    #[test]
    fn a_mismatch_is_counted_once_a_pass_and_the_new_order_is_learned() {
        let mut order = PassOrder::default();
        pass(&mut order, &[1, 2, 3]);
        assert_eq!(pass(&mut order, &[1, 3, 2]), [Arrival::Expected, Arrival::Mismatch, Arrival::Unplanned]);
        assert_eq!(order.mismatches(), 1);
        assert!(pass(&mut order, &[1, 3, 2]).iter().all(|a| *a == Arrival::Expected));
        order.arrive(9);
        assert!(ahead(&order).is_empty(), "nothing is expected after a mismatch");
    }
}
