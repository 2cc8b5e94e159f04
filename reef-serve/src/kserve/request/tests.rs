use super::*;

#[test]
fn a_region_needs_its_size() {
    let text = |text: &str| Parameter::Text(text.into());
    let all = [
        ("shared_memory_region", text("r")),
        ("shared_memory_byte_size", Parameter::Number(8)),
        ("shared_memory_offset", Parameter::Number(4)),
    ];
    let want = Place { region: "r".into(), offset: 4, bytes: 8 };
    assert_eq!(place(all.clone()), Ok(Some(want)));
    assert!(place(all[..1].to_vec()).is_err() && place(all[1..].to_vec()).is_err());
    assert_eq!(place([("mine", Parameter::Other)]), Ok(None));
    assert!(place([("shared_memory_region", Parameter::Number(1))]).is_err());
    let classes = place([("classification", Parameter::Number(3))]);
    assert!(matches!(classes, Err(Error::Unimplemented(_))));
}

#[test]
fn parameters_have_their_types() {
    let mut request = InferRequest::default();
    request.parameter("priority", &Parameter::Number(1)).unwrap();
    request.parameter("timeout", &Parameter::Number(5000)).unwrap();
    request.parameter("my own", &Parameter::Other).unwrap();
    assert_eq!((request.priority, request.timeout), (1, 5000));
    assert!(request.parameter("priority", &Parameter::Text("1".into())).is_err());
    let sequence = request.parameter("sequence_id", &Parameter::Number(7));
    assert!(matches!(sequence, Err(Error::Unimplemented(_))));
}
