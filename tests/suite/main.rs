//! x
#[test] fn a(){}
